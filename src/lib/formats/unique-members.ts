import { CLOSE_OBJECT, COMMA, OPEN_OBJECT } from './ascii.js'
import type { GrowingBytes } from './growing-bytes.js'
import { skipSpace, stringEnd, valueEnd } from './json-scan.js'

/** A member of an object: where its name begins, and where its value ends. */
type Member = readonly [from: number, to: number]

/**
 * Adds the valid JSON object [start, end) with each name once: at the place of the first member that has it, with the
 * value of the last one, as JSON.parse reads it. Members are copied as they were written. `without`: a name left out.
 */
export function addUnique(to: GrowingBytes, b: Buffer, start: number, end: number, without?: string): void {
  const members = new Map<string, Member>()
  let p = skipSpace(b, skipSpace(b, start, end) + 1, end)
  while (b[p] !== CLOSE_OBJECT) {
    const from = p
    const nameEnd = stringEnd(b, p + 1) + 1
    p = valueEnd(b, skipSpace(b, skipSpace(b, nameEnd, end) + 1, end), end)
    members.set(JSON.parse(b.toString('utf8', from, nameEnd)) as string, [from, p])
    p = skipSpace(b, p, end)
    if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
  }
  if (without !== undefined) members.delete(without)
  to.addByte(OPEN_OBJECT)
  let isFirst = true
  for (const [from, memberEnd] of members.values()) {
    if (!isFirst) to.addByte(COMMA)
    to.add(b, from, memberEnd)
    isFirst = false
  }
  to.addByte(CLOSE_OBJECT)
}
