import { isIP } from 'node:net'
import { Reader, type Response } from 'mmdb-lib'
import { errorText } from '../../../core/errors.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { type LookupTable, SearchedTable, TableError } from './table.js'

/** Marks the start of the metadata, near the end of the file. By chance, entries may contain the same bytes, too. */
const METADATA = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1')
const MOST_METADATA = 100
/** Bytes between the tree and the entries. */
const SEPARATOR_BYTES = 16

/** `paths`: the values to take from an entry, such as `country.iso_code`. Undefined: all values. */
export function openDatabase(bytes: Buffer, paths: readonly string[] | undefined): LookupTable {
  const database = new Database(bytes)
  return new SearchedTable(database.size, text => {
    const entry = isIP(text) > 0 ? database.find(text) : undefined
    const taken = entry && paths ? pick(entry, paths) : entry
    return taken && Buffer.from(jsonText(taken))
  })
}

/** Finds entries by address, and measures each before it is decoded. */
class Database {
  readonly #reader: Reader<Response>
  readonly #bounds: EntryBounds
  #isMeasured = false

  constructor(bytes: Buffer) {
    // The reader first calls `get` for the entry, then for the values that the entry points to.
    const get = (offset: string | number) => {
      if (!this.#isMeasured) this.#bounds.check(Number(offset))
      this.#isMeasured = true
    }
    try {
      checkMetadata(bytes)
      this.#reader = new Reader(bytes, { cache: { get, set() {} } })
    } catch (error) {
      throw new TableError(`is not a MaxMind database: ${errorText(error)}`)
    }
    this.#bounds = new EntryBounds(bytes, this.#reader.metadata.searchTreeSize + SEPARATOR_BYTES)
  }

  get size(): number {
    return this.#reader.metadata.nodeCount
  }

  /** The entry of an address, or undefined if missing or unreadable. Throws TableError if the entry is too large. */
  find(address: string): Record<string, unknown> | undefined {
    this.#isMeasured = false
    try {
      return (this.#reader.get(address) as Record<string, unknown> | null) ?? undefined
    } catch (error) {
      if (error instanceof EntryTooLarge)
        throw new TableError(`the entry of ${address} cannot be used: ${error.message}`)
      return undefined
    }
  }
}

/** Throws if metadata is too large. Checks each place where the reader may find metadata. */
function checkMetadata(bytes: Buffer): void {
  let count = 0
  for (let at = bytes.indexOf(METADATA); at >= 0; at = bytes.indexOf(METADATA, at + 1)) {
    if (++count > MOST_METADATA) throw new Error(`it has metadata in more than ${MOST_METADATA} places`)
    const start = at + METADATA.length
    new EntryBounds(bytes, start).check(start)
  }
}

/** Returns the values at these paths, nested as in the entry. */
function pick(entry: Record<string, unknown>, paths: readonly string[]): Record<string, unknown> {
  const picked: Record<string, unknown> = {}
  for (const path of paths) {
    const names = path.split('.')
    const last = names.pop()!
    const value = at(at(entry, names), [last])
    if (value === undefined) continue
    let to = picked
    for (const name of names) {
      if (!Object.hasOwn(to, name)) to[name] = {}
      to = to[name] as Record<string, unknown>
    }
    to[last] = value
  }
  return picked
}

function at(value: unknown, names: readonly string[]): unknown {
  for (const name of names) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

/** Maximum size of an entry: VALUE_BYTES per value, plus the bytes of texts. Real entries take some kilobytes. */
const MOST_BYTES = 256 * 1024
const VALUE_BYTES = 8
const DEEPEST = 64

/** Numbers of the types of values in the format. */
const EXTENDED = 0
const POINTER = 1
const DOUBLE = 3
const MAP = 7
const ARRAY = 11
const BOOLEAN = 14
const FLOAT = 15

/** Offsets added to pointers of 1, 2, 3 and 4 bytes. */
const POINTER_OFFSETS = [0, 2048, 526336, 0]

export class EntryTooLarge extends Error {}

/**
 * Measures entries of a MaxMind database before they are decoded, because with pointers, a file of a few hundred bytes
 * can have an entry of any size. Invariant: a check takes time proportional to MOST_BYTES. A damaged entry may pass the
 * check, but the decoder detects the damage.
 */
export class EntryBounds {
  readonly #bytes: Buffer
  /** Start of the section that contains the entry. Pointers are relative to this start. */
  readonly #base: number
  #left = 0

  constructor(bytes: Buffer, base: number) {
    this.#bytes = bytes
    this.#base = base
  }

  /** Throws EntryTooLarge if the entry at `offset` has too many values or too long values. */
  check(offset: number): void {
    this.#left = MOST_BYTES
    this.#walk(offset, 0)
  }

  /** Returns the end of the value at `offset`. */
  #walk(offset: number, depth: number): number {
    const b = this.#bytes
    this.#take(VALUE_BYTES)
    if (depth > DEEPEST) throw new EntryTooLarge(`it is nested more than ${DEEPEST} deep`)
    if (offset >= b.length) return offset
    const control = b[offset]!
    let at = offset + 1
    let type = control >> 5
    if (type === POINTER) {
      const length = ((control >> 3) & 3) + 1
      if (at + length > b.length) return b.length
      const high = length === 4 ? 0 : (control & 7) * 2 ** (8 * length)
      this.#walk(this.#base + POINTER_OFFSETS[length - 1]! + high + b.readUIntBE(at, length), depth + 1)
      return at + length
    }
    if (type === EXTENDED) type = (b[at++] ?? 0) + 7
    let size = control & 0x1f
    if (size >= 29) {
      const length = size - 28
      if (at + length > b.length) return b.length
      size = [29, 285, 65821][length - 1]! + b.readUIntBE(at, length)
      at += length
    }
    if (type === BOOLEAN) return at
    if (type === DOUBLE || type === FLOAT) return at + size
    if (type !== MAP && type !== ARRAY) {
      this.#take(size)
      return at + size
    }
    const values = type === MAP ? 2 * size : size
    if (values * VALUE_BYTES > this.#left) this.#take(values * VALUE_BYTES)
    for (let n = 0; n < values; n++) at = this.#walk(at, depth + 1)
    return at
  }

  #take(bytes: number): void {
    this.#left -= bytes
    if (this.#left < 0) throw new EntryTooLarge(`it takes more than ${MOST_BYTES / 1024} KiB`)
  }
}
