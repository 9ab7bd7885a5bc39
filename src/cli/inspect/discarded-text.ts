/**
 * Describes where discarded events go. `readers`: the components that read these events; null if the throttle is in
 * shadow mode, in which it does not discard.
 */
export function discardedText(readers: readonly string[] | null): string {
  if (readers === null) return 'mode: shadow: these events pass, and are only counted as discarded'
  if (readers.length === 0) return 'discarded events are only counted: no component reads them'
  return `discarded events go to ${readers.join(', ')}`
}
