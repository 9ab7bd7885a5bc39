import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './ascii.js'
import type { GrowingBytes } from './growing-bytes.js'
import { sawEscape, skipSpace, stringEnd, valueEnd } from './json-scan.js'
import { tokenText } from './json-token.js'

/** Finds members of objects and items of arrays in valid JSON, and the bytes to cut for removing them. */

/** The last result, reused to avoid allocations. */
export const found = {
  /** Number of members with the name. The other properties describe the last such member, because its value applies. */
  count: 0,
  /** The range of the name with its quotes. */
  nameStart: 0,
  nameEnd: 0,
  start: 0,
  end: 0,
  /** To remove the member or item with one comma, remove the bytes [cutStart, cutEnd). */
  cutStart: 0,
  cutEnd: 0,
  isOnly: false,
}

/** A name to look for, in the forms for comparing and writing. */
export class MemberName {
  readonly text: string
  readonly bytes: Buffer
  /** As JSON, with its quotes. */
  readonly json: Buffer

  constructor(text: string) {
    this.text = text
    this.json = Buffer.from(JSON.stringify(text))
    // Half a surrogate pair can only be written as an escape. The byte 0 matches nothing, as no name contains it.
    this.bytes = text.isWellFormed() ? Buffer.from(text) : Buffer.from([0])
  }
}

/** Finds the member `name` of the object [start, end). Returns whether there is one. */
export function findMember(b: Buffer, start: number, end: number, name: MemberName): boolean {
  found.count = 0
  let p = skipSpace(b, skipSpace(b, start, end) + 1, end)
  for (let comma = -1; b[p] !== CLOSE_OBJECT; ) {
    const nameStart = p
    p = stringEnd(b, p + 1)
    const isFound = sawEscape
      ? JSON.parse(b.toString('utf8', nameStart, p + 1)) === name.text
      : isSame(b, nameStart, p, name)
    const nameEnd = p + 1
    p = skipSpace(b, skipSpace(b, nameEnd, end) + 1, end)
    const valueStart = p
    p = valueEnd(b, p, end)
    const next = skipSpace(b, p, end)
    if (isFound) {
      found.count++
      found.nameStart = nameStart
      found.nameEnd = nameEnd
      found.start = valueStart
      found.end = p
      cut(b, nameStart, p, comma, next, end)
    }
    if (b[next] !== COMMA) break
    comma = next
    p = skipSpace(b, next + 1, end)
  }
  return found.count > 0
}

/**
 * Like `findMember`, but much faster. The value of the member must be [from, to). Returns false if the name has escapes
 * or may occur twice. Then call `findMember`. `isOnlyOne`: the name is known to occur only once.
 */
export function memberOf(
  b: Buffer,
  start: number,
  end: number,
  { json }: MemberName,
  from: number,
  to: number,
  isOnlyOne: boolean,
): boolean {
  const nameEnd = skipSpaceBack(b, skipSpaceBack(b, from) - 1)
  const nameStart = nameEnd - json.length
  if (!isAt(b, nameStart, json)) return false
  if (!isOnlyOne && mayHold(b, start, nameStart, json)) return false
  found.count = 1
  found.nameStart = nameStart
  found.nameEnd = nameEnd
  found.start = from
  found.end = to
  const before = skipSpaceBack(b, nameStart) - 1
  cut(b, nameStart, to, b[before] === COMMA ? before : -1, skipSpace(b, to, end), end)
  return true
}

/** Whether the name may be in [start, end): the range has its bytes, or a backslash, which may begin an escape. */
function mayHold(b: Buffer, start: number, end: number, json: Buffer): boolean {
  const letter = json[1]!
  let p = start + 1
  for (const stop = end - 3; p < stop; p += 4) {
    const one = b[p]
    const two = b[p + 1]
    const three = b[p + 2]
    const four = b[p + 3]
    if (one === BACKSLASH || two === BACKSLASH || three === BACKSLASH || four === BACKSLASH) return true
    if (one === letter && b[p - 1] === QUOTE && isAt(b, p - 1, json)) return true
    if (two === letter && one === QUOTE && isAt(b, p, json)) return true
    if (three === letter && two === QUOTE && isAt(b, p + 1, json)) return true
    if (four === letter && three === QUOTE && isAt(b, p + 2, json)) return true
  }
  for (; p < end; p++) if (b[p] === BACKSLASH || (b[p] === letter && isAt(b, p - 1, json))) return true
  return false
}

function isAt(b: Buffer, at: number, json: Buffer): boolean {
  for (let i = json.length - 1; i >= 0; i--) if (b[at + i] !== json[i]) return false
  return true
}

/** Returns where the white space before `p` begins. */
function skipSpaceBack(b: Buffer, p: number): number {
  while (b[p - 1]! <= 0x20) p--
  return p
}

/** Finds item `index` of the array [start, end). Returns whether there is one. */
export function findItem(b: Buffer, start: number, end: number, index: number): boolean {
  let p = skipSpace(b, start + 1, end)
  for (let at = 0, comma = -1; b[p] !== CLOSE_ARRAY; at++) {
    const itemStart = p
    p = valueEnd(b, p, end)
    const next = skipSpace(b, p, end)
    if (at === index) {
      found.count = 1
      found.start = itemStart
      found.end = p
      cut(b, itemStart, p, comma, next, end)
      return true
    }
    if (b[next] !== COMMA) return false
    comma = next
    p = skipSpace(b, next + 1, end)
  }
  return false
}

/** Finds the value at a path of names and indices in the object [start, end). Returns whether there is one. */
export function findPath(b: Buffer, start: number, end: number, path: readonly (MemberName | number)[]): boolean {
  for (const step of path) {
    const isFound =
      typeof step === 'number'
        ? b[start] === OPEN_ARRAY && findItem(b, start, end, step)
        : b[start] === OPEN_OBJECT && findMember(b, start, end, step)
    if (!isFound) return false
    start = found.start
    end = found.end
  }
  return true
}

/** Whether the object that opens at or after `start` has no members. */
export function isEmptyObject(b: Buffer, start: number, end: number): boolean {
  return b[skipSpace(b, skipSpace(b, start, end) + 1, end)] === CLOSE_OBJECT
}

/** Whether the text between the quotes at `quote` and `end`, which has no escapes, is this name. */
function isSame(b: Buffer, quote: number, end: number, { bytes }: MemberName): boolean {
  const length = bytes.length
  if (end - quote - 1 !== length) return false
  for (let i = 0; i < length; i++) if (b[quote + 1 + i] !== bytes[i]) return false
  return true
}

/** Sets the range to cut: the member or item and the comma after it, or before it if it is the last. */
function cut(b: Buffer, from: number, to: number, comma: number, next: number, end: number): void {
  const isLast = b[next] !== COMMA
  found.cutStart = isLast && comma >= 0 ? comma : from
  found.cutEnd = isLast ? to : skipSpace(b, next + 1, end)
  found.isOnly = isLast && comma < 0
}

/** A member of an object: where its name and its value begin, and where its value ends. */
type Member = readonly [from: number, valueStart: number, to: number]

/**
 * Adds the valid JSON object [start, end) with each name once, like JSON.parse. A repeated name keeps its first place,
 * but gets its last value. Members are copied as written. `without`: a name to omit. `levels`: how many levels of
 * objects and arrays inside get unique names, too.
 */
export function addUnique(to: GrowingBytes, b: Buffer, start: number, end: number, without?: string, levels = 0): void {
  const members = new Map<string, Member>()
  eachMember(b, start, end, (name, ...member) => members.set(name, member))
  if (without !== undefined) members.delete(without)
  to.addByte(OPEN_OBJECT)
  let isFirst = true
  for (const [from, valueStart, memberEnd] of members.values()) {
    if (!isFirst) to.addByte(COMMA)
    to.add(b, from, valueStart)
    addUniqueValue(to, b, valueStart, memberEnd, levels)
    isFirst = false
  }
  to.addByte(CLOSE_OBJECT)
}

function addUniqueValue(to: GrowingBytes, b: Buffer, start: number, end: number, levels: number): void {
  if (levels > 0 && b[start] === OPEN_OBJECT) addUnique(to, b, start, end, undefined, levels - 1)
  else if (levels > 0 && b[start] === OPEN_ARRAY) {
    for (let p = start; b[p] !== CLOSE_ARRAY; ) {
      // Adds the bracket or the comma.
      to.addByte(b[p]!)
      const item = skipSpace(b, p + 1, end)
      const itemEnd = b[item] === CLOSE_ARRAY ? item : valueEnd(b, item, end)
      addUniqueValue(to, b, item, itemEnd, levels - 1)
      p = skipSpace(b, itemEnd, end)
    }
    to.addByte(CLOSE_ARRAY)
  } else to.add(b, start, end)
}

/** Whether the valid JSON object [start, end) has a name twice. */
export function repeatsName(b: Buffer, start: number, end: number): boolean {
  const names: string[] = []
  eachMember(b, start, end, name => names.push(name))
  return new Set(names).size < names.length
}

function eachMember(b: Buffer, start: number, end: number, each: (name: string, ...member: Member) => unknown): void {
  let p = skipSpace(b, skipSpace(b, start, end) + 1, end)
  while (b[p] !== CLOSE_OBJECT) {
    const from = p
    const nameEnd = stringEnd(b, p + 1) + 1
    const name = tokenText(b, from, nameEnd)
    const valueStart = skipSpace(b, skipSpace(b, nameEnd, end) + 1, end)
    p = valueEnd(b, valueStart, end)
    each(name, from, valueStart, p)
    p = skipSpace(b, p, end)
    if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
  }
}
