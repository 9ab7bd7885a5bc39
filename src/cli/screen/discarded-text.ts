/**
 * Describes where discarded events go. `readers`: the components that read them; null: a throttle in shadow mode, which
 * does not discard.
 */
export function discardedText(readers: readonly string[] | null): string {
  if (readers === null) return 'mode: shadow: these events pass, and are only counted as discarded'
  if (readers.length === 0) return 'discarded events are only counted: no component reads them'
  return `discarded events go to ${readers.join(', ')}`
}
