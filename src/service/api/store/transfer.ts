import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { errorText } from '../../../core/errors.js'
import { syncFolder } from '../../../lib/files/atomic-file.js'
import { MIGRATIONS } from './schema.js'
import { type Sql, type Store, StoreError, type Value } from './store.js'

/**
 * Moves a store to another database by a file. The first line of the file is a header with the number of records of
 * each table. Each further line has one record. Records are in the order of their primary keys. Each line begins with a
 * hash of two parts: the hash in the previous line, and the line's own text. The same records thus give the same file,
 * and a changed, missing or moved line is detected.
 */

/** Tables with their primary keys, without the tables of running nodes. Secrets stay encrypted, and keys hashed. */
export const EXPORTED: Readonly<Record<string, readonly string[]>> = {
  setting: ['name'],
  enterprise: ['id'],
  account: ['id'],
  person: ['id'],
  service_account: ['id'],
  access_key: ['id'],
  key_use: ['key_id'],
  pipeline: ['id'],
  revision: ['pipeline_id', 'revision'],
  secret: ['account_id', 'name'],
  daemon: ['pipeline_id', 'id'],
  audit: ['id'],
}

const FORMAT = 'sluice export 1'
/** Records per statement. */
const PAGE = 100
/** The longest record is a revision of 128 KiB, in JSON within JSON. */
const MOST_LINE_BYTES = 16 * 1024 * 1024
const HASH_LENGTH = 64
const LF = 10

interface Header {
  readonly format: string
  /** Number of migrations of the exported store. */
  readonly schema: number
  readonly records: Readonly<Record<string, number>>
}

type Row = Readonly<Record<string, Value>>

/** Writes a snapshot of the store to a new file that only its owner can read. Resolves with the number of records. */
export async function exportStore(store: Store, path: string): Promise<number> {
  const file = await open(path, 'wx', 0o600)
  try {
    const header = await store.snapshot(async sql => {
      const header = await headerOf(sql)
      await pipeline(linesFrom(sql, header), file.createWriteStream({ flush: true }))
      return header
    })
    await syncFolder(dirname(path))
    return sizeOf(header)
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await file.close().catch(() => {})
  }
}

async function headerOf(sql: Sql): Promise<Header> {
  const records: Record<string, number> = {}
  for (const table of Object.keys(EXPORTED))
    records[table] = (await sql.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`))!.n
  return { format: FORMAT, schema: MIGRATIONS.length, records }
}

function sizeOf({ records }: Header): number {
  return Object.values(records).reduce((a, b) => a + b, 0)
}

/** The lines of the file, including line ends. */
async function* linesFrom(sql: Sql, header: Header): AsyncGenerator<string> {
  let hash = ''
  const line = (value: unknown) => {
    const text = JSON.stringify(value)
    hash = hashOf(hash, text)
    return `${hash} ${text}\n`
  }
  yield line(header)
  for (const [table, key] of Object.entries(EXPORTED)) {
    const after = `WHERE (${key.join(', ')}) > (${key.map((_, i) => `$${i + 1}`).join(', ')})`
    const page = (where: string) => `SELECT * FROM ${table} ${where} ORDER BY ${key.join(', ')} LIMIT ${PAGE}`
    let rows = await sql.all<Row>(page(''))
    while (rows.length > 0) {
      for (const row of rows) yield line([table, row])
      const last = rows.at(-1)!
      rows = rows.length < PAGE ? [] : await sql.all<Row>(page(after), ...key.map(name => last[name]!))
    }
  }
}

function hashOf(before: string, text: string | Buffer): string {
  return createHash('sha256').update(before).update(text).digest('hex')
}

/**
 * Imports all records of a file into an empty store, in one change. Calls `check` before and after the import. Then the
 * hashes of the store must equal those of the file. Throws StoreError, or Error with the number of the wrong line.
 */
export async function importStore(store: Store, path: string, check: (sql: Sql) => Promise<void>): Promise<number> {
  // Nothing else changes the store meanwhile, so the change may wait for the file.
  return await store.change('', async sql => {
    for (const table of Object.keys(EXPORTED))
      if (table !== 'setting' && (await sql.get(`SELECT 1 AS found FROM ${table} LIMIT 1`)))
        throw new Error(`the store has records in the table ${table}; import into an empty store`)
    // A service that was started but not initialized has already written settings.
    await check(sql)
    await sql.run('DELETE FROM setting')
    const { header, hash } = await insertFrom(path, sql)
    await check(sql)
    let last = ''
    for await (const line of linesFrom(sql, header)) last = line
    if (!last.startsWith(hash))
      throw new Error(`nothing was imported: the imported records would differ from those in ${path}`)
    return sizeOf(header)
  })
}

/** Resolves with the header and the hash of the last line. */
async function insertFrom(path: string, sql: Sql): Promise<{ header: Header; hash: string }> {
  let header: Header | undefined
  let hash = ''
  let number = 0
  let table = ''
  let rows: Row[] = []
  const insert = async () => {
    try {
      if (rows.length > 0) await insertRows(sql, table, rows)
    } catch (error) {
      if (error instanceof StoreError) throw error
      throw new Error(`${path}, before line ${number}: the store refuses records: ${errorText(error)}`)
    }
    rows = []
  }
  for await (const line of linesOf(path)) {
    number++
    const text = line.subarray(HASH_LENGTH + 1)
    hash = hashOf(hash, text)
    if (line.toString('latin1', 0, HASH_LENGTH + 1) !== `${hash} `)
      throw wrong(
        path,
        number,
        'the line does not match its hash: the file was changed or damaged, or is not an export',
      )
    const value = JSON.parse(text.toString())
    if (!header) header = readable(value, path)
    else {
      const [to, row] = value as [string, Row]
      if (to !== table || rows.length === PAGE) await insert()
      table = to
      rows.push(row)
    }
  }
  number++
  if (!header) throw wrong(path, 1, 'the file is empty')
  await insert()
  const [expected, found] = [sizeOf(header), number - 2]
  if (found !== expected) throw wrong(path, number, `the file has ${found} of ${expected} records and was cut off`)
  return { header, hash }
}

async function insertRows(sql: Sql, table: string, rows: readonly Row[]): Promise<void> {
  const columns = Object.keys(rows[0]!)
  if (!EXPORTED[table] || !columns.every(name => /^[a-z_]+$/.test(name))) throw new Error('there is no such table')
  const values = rows.map((_, y) => `(${columns.map((_, x) => `$${y * columns.length + x + 1}`).join(', ')})`)
  const text = `INSERT INTO ${table} (${columns.join(', ')}) VALUES ${values.join(', ')}`
  await sql.run(text, ...rows.flatMap(row => columns.map(name => row[name]!)))
}

/** Throws if this version cannot read the file. */
function readable(header: Header, path: string): Header {
  const { format, schema, records } = header
  if (format !== FORMAT || !records) throw wrong(path, 1, 'the file is not an export')
  if (schema === MIGRATIONS.length) return header
  const why = `the export has tables of version ${schema}, and this program has version ${MIGRATIONS.length}`
  throw wrong(path, 1, `${why}; import it with the version of Sluice that made it`)
}

/** The lines of a file, without line ends. */
async function* linesOf(path: string): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0)
  let number = 1
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    rest = Buffer.concat([rest, chunk])
    let start = 0
    for (let end = rest.indexOf(LF); end >= 0; end = rest.indexOf(LF, start)) {
      yield rest.subarray(start, end)
      number++
      start = end + 1
    }
    rest = rest.subarray(start)
    if (rest.length > MOST_LINE_BYTES) throw wrong(path, number, 'the line is longer than any record')
  }
  if (rest.length > 0) throw wrong(path, number, 'the file is cut off in this line')
}

function wrong(path: string, line: number, why: string): Error {
  return new Error(`${path}, line ${line}: ${why}; nothing is imported`)
}
