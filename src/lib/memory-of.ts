/** What V8 takes for an object or array, for a text besides its characters, and for a place that holds a value. */
const OBJECT_BYTES = 56
const TEXT_BYTES = 24
const PLACE_BYTES = 16

/** The memory of a value decoded from JSON, in bytes, about: `{}` takes far more than its two bytes of text. */
export function memoryOf(value: unknown): number {
  if (typeof value === 'string') return PLACE_BYTES + TEXT_BYTES + value.length
  if (typeof value !== 'object' || value === null) return PLACE_BYTES
  let bytes = 0
  // A loop, since JSON may be nested deeper than the stack.
  const left: unknown[] = [value]
  while (left.length > 0) {
    const one = left.pop()
    bytes += PLACE_BYTES
    if (typeof one === 'string') bytes += TEXT_BYTES + one.length
    if (typeof one !== 'object' || one === null) continue
    bytes += OBJECT_BYTES
    if (Array.isArray(one)) for (const item of one) left.push(item)
    else for (const name in one) left.push(one[name as keyof typeof one])
  }
  return bytes
}
