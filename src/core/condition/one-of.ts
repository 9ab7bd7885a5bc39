import type { ValueTest } from './operators.js'
import { hasText, standsAt } from './texts.js'

/** Compiles the test whether a text is one of a list. Its time does not grow with the list. */
export function oneOf(values: readonly string[]): ValueTest {
  const texts = new Set(values)
  const byHash = new Map<number, Buffer[]>()
  let longest = 0
  for (const text of texts) {
    const bytes = Buffer.from(text)
    const hash = hashOf(bytes, 0, bytes.length)
    const same = byHash.get(hash)
    if (same) same.push(bytes)
    else byHash.set(hash, [bytes])
    longest = Math.max(longest, bytes.length)
  }
  return reader => {
    if (!hasText(reader.kind)) return false
    if (!reader.plain) return texts.has(reader.text())
    const { bytes, start, end } = reader
    if (end - start > longest) return false
    const same = byHash.get(hashOf(bytes, start, end))
    if (same === undefined) return false
    for (let k = 0; k < same.length; k++) {
      if (same[k]!.length === end - start && standsAt(bytes, start, same[k]!)) return true
    }
    return false
  }
}

/** A hash of 30 bits, which V8 keeps without a heap object. The list is the operator's own, so it needs no seed. */
function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start
  for (let p = start; p < end; p++) hash = Math.imul(hash ^ bytes[p]!, 0x01000193)
  return (hash ^ (hash >>> 15)) & 0x3fffffff
}
