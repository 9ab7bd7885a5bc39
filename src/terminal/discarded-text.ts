/** Where discarded events go. `readers`: the components that read them. */
export function discardedText(readers: readonly string[]): string {
  if (readers.length === 0) return 'discarded events are only counted: nobody reads them'
  return `discarded events go to ${readers.join(', ')}`
}
