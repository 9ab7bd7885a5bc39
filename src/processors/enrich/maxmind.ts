import { isIP } from 'node:net'
import { Reader, type Response } from 'mmdb-lib'
import { errorText } from '../../core/errors.js'
import { jsonText } from '../../lib/formats/json-text.js'
import { SearchedTable, type Table, TableError } from './table.js'

/** Opens a MaxMind database. `paths`: what is taken of an entry, as in `country.iso_code`; undefined: all. */
export function openDatabase(bytes: Buffer, paths: readonly string[] | undefined): Table {
  const reader = readerOf(bytes)
  return new SearchedTable(reader.metadata.nodeCount, text => {
    const entry = isIP(text) > 0 ? found(reader, text) : undefined
    const taken = entry && paths ? pick(entry, paths) : entry
    return taken && Buffer.from(jsonText(taken))
  })
}

function readerOf(bytes: Buffer): Reader<Response> {
  try {
    return new Reader(bytes)
  } catch (error) {
    throw new TableError(`is not a MaxMind database: ${errorText(error)}`)
  }
}

/** The entry of an address; undefined: none, or none that can be read. */
function found(reader: Reader<Response>, address: string): Record<string, unknown> | undefined {
  try {
    return (reader.get(address) as Record<string, unknown> | null) ?? undefined
  } catch {
    return undefined
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
