import { writevSync } from 'node:fs'
import { FROM_CHILD, jsonHead } from '../../../lib/frames.js'

/** Waits until the reader has taken all of it, so that nothing of it is lost when the process ends. Throws if it is gone. */
export function writeFrame(head: object, parts: readonly Uint8Array[] = []): void {
  const size = parts.reduce((sum, part) => sum + part.byteLength, 0)
  let rest = [jsonHead(head, size), ...parts].filter(part => part.byteLength > 0)
  while (rest.length > 0) {
    let written = writevSync(FROM_CHILD, rest)
    rest = rest.flatMap(part => {
      const left = part.subarray(Math.min(written, part.byteLength))
      written -= part.byteLength - left.byteLength
      return left.byteLength > 0 ? [left] : []
    })
  }
}
