import { isIP } from 'node:net'
import { Reader, type Response } from 'mmdb-lib'
import { errorText } from '../../../core/errors.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { EntryBounds, EntryTooLarge } from './entry-bounds.js'
import { SearchedTable, type Table, TableError } from './table.js'

/** What precedes the metadata, near the end of the file. By chance it may be among the entries, too. */
const METADATA = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1')
const MOST_METADATA = 100
/** Between the tree and the entries. */
const SEPARATOR_BYTES = 16

/** Opens a MaxMind database. `paths`: what is taken of an entry, as in `country.iso_code`; undefined: all. */
export function openDatabase(bytes: Buffer, paths: readonly string[] | undefined): Table {
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
    // The reader asks for the entry first, and then for what it points to.
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

  /** The entry of an address; undefined: none, or none that can be read. Throws TableError if it is too large. */
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

/** Throws if the metadata are too large, wherever the reader finds them. */
function checkMetadata(bytes: Buffer): void {
  let count = 0
  for (let at = bytes.indexOf(METADATA); at >= 0; at = bytes.indexOf(METADATA, at + 1)) {
    if (++count > MOST_METADATA) throw new Error(`it has metadata in more than ${MOST_METADATA} places`)
    const start = at + METADATA.length
    new EntryBounds(bytes, start).check(start)
  }
}

/** The values at these paths, in objects as they were. */
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
