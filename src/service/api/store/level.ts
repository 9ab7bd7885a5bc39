import { rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Logger } from 'pino'
import { syncFolder } from '../../../lib/files/atomic-file.js'
import { makeFolder } from '../../../lib/files/make-folder.js'
import { type Level, LevelDatabase, openLevel, unusable } from './level-database.js'
import { Reads } from './reads.js'
import {
  type Change,
  type Entry,
  type Expected,
  type ListOptions,
  type Store,
  StoreError,
  type StoreHealth,
} from './store.js'

/**
 * The store in LevelDB. It relies on these facts:
 * - Only one process has it open: LevelDB's own lock, which is released when the process ends in any way.
 * - A write is one batch, synced before it resolves. After a kill, the log is read up to the last complete batch.
 * - After a failed write, the database is opened again before the next write (`level-database.ts`).
 * - Writes that arrive while one is being synced share the next batch. Each is checked against the ones before it in
 *   the batch.
 * - The cache of reads is invalidated before a write resolves.
 */

/** Size of each of the two generations of cached reads. */
const READS_BYTES = 32 * 1024 * 1024
/** Entries that a backup copies at a time. */
const COPIED_AT_ONCE = 500

interface Waiting {
  readonly changes: readonly Change[]
  readonly expected: readonly Expected[]
  readonly done: () => void
  readonly failed: (error: unknown) => void
}

/** Opens the store in the folder `path`, which is created if it is missing. */
export async function openLevelStore(path: string, log?: Logger): Promise<Store> {
  try {
    await makeFolder(path, 0o700)
  } catch (error) {
    throw unusable(path, error)
  }
  return new LevelStore(path, await LevelDatabase.open(path, log))
}

class LevelStore implements Store {
  readonly #path: string
  readonly #database: LevelDatabase
  readonly #reads = new Reads(READS_BYTES)
  readonly #watches: { readonly prefix: string; readonly changed: () => void }[] = []
  #waiting: Waiting[] = []
  #damagedReads = 0
  #writing: Promise<void> | undefined

  constructor(path: string, database: LevelDatabase) {
    this.#path = path
    this.#database = database
    database.reopened = () => {
      this.#reads.forgetAll()
      for (const { changed } of this.#watches) changed()
    }
  }

  async get(key: string): Promise<unknown> {
    const known = this.#reads.value(key)
    if (known) return known.value
    const { generation } = this.#reads
    const text = await this.#read(level => level.get(key))
    const value = text === undefined ? undefined : parse(this.#jsonOf(key, text))
    this.#reads.keep(key, value, text?.length ?? 0, generation)
    return value
  }

  async list(prefix: string, options: ListOptions = {}): Promise<readonly Entry[]> {
    const known = this.#reads.list(prefix, options)
    if (known) return known
    const { generation } = this.#reads
    const { after, limit = -1, reverse = false } = options
    // The character after the slash that ends the prefix.
    const end = `${prefix.slice(0, -1)}0`
    const range = reverse
      ? { gt: prefix, lt: after !== undefined && after < end ? after : end }
      : { gt: after !== undefined && after > prefix ? after : prefix, lt: end }
    const found = await this.#read(level => level.iterator({ ...range, limit, reverse }).all())
    const list = Object.freeze(found.map(([key, text]) => ({ key, value: parse(this.#jsonOf(key, text)) })))
    const bytes = found.reduce((sum, [key, text]) => sum + key.length + text.length, 0)
    this.#reads.keepList(prefix, options, list, bytes, generation)
    return list
  }

  write(changes: readonly Change[], expected: readonly Expected[] = []): Promise<void> {
    return new Promise((done, failed) => {
      this.#waiting.push({ changes, expected, done, failed })
      this.#writing ??= this.#writeAll()
    })
  }

  async #writeAll(): Promise<void> {
    // Writes of the same event loop turn share the first batch.
    await undefined
    while (this.#waiting.length > 0) {
      const group = this.#waiting
      this.#waiting = []
      await this.#writeGroup(group)
    }
    this.#writing = undefined
  }

  async #writeGroup(group: readonly Waiting[]): Promise<void> {
    const accepted: Waiting[] = []
    const texts = new Map<string, string | undefined>()
    try {
      const before = await this.#present(group)
      for (const one of group) {
        const differs = one.expected.find(
          ({ key, value }) => (texts.has(key) ? texts.get(key) : before.get(key)) !== JSON.stringify(value),
        )
        if (differs) {
          one.failed(new StoreError('SLUICE_STORE_CONFLICT', `${differs.key} was changed meanwhile`))
          continue
        }
        accepted.push(one)
        for (const { key, value } of one.changes) texts.set(key, JSON.stringify(value))
      }
      const operations = [...texts].map(([key, text]) =>
        text === undefined
          ? { type: 'del' as const, key }
          : { type: 'put' as const, key, value: checkedText(key, text) },
      )
      if (operations.length > 0) await this.#database.write(operations)
    } catch (error) {
      // It is unknown which part is on disk: the write is not acknowledged, and cached reads are dropped.
      this.#changed([...texts.keys()])
      const failure = unusable(this.#path, error)
      for (const { failed } of group) failed(failure)
      return
    }
    this.#changed([...texts.keys()])
    for (const { done } of accepted) done()
  }

  watch(prefix: string, changed: () => void): void {
    this.#watches.push({ prefix, changed })
  }

  #changed(keys: readonly string[]): void {
    this.#reads.forget(keys)
    for (const { prefix, changed } of this.#watches) if (keys.some(key => key.startsWith(prefix))) changed()
  }

  /** The texts of everything that a group expects. */
  async #present(group: readonly Waiting[]): Promise<Map<string, string | undefined>> {
    const keys = [...new Set(group.flatMap(({ expected }) => expected.map(({ key }) => key)))]
    if (keys.length === 0) return new Map()
    const texts = await this.#database.read(level => level.getMany(keys))
    return new Map(keys.map((key, i) => [key, texts[i] === undefined ? undefined : this.#jsonOf(key, texts[i])]))
  }

  async check(): Promise<void> {
    await this.#read(async level => {
      for await (const [key, text] of level.iterator()) this.#jsonOf(key, text)
    })
  }

  async backup(path: string): Promise<void> {
    if (await stat(path).catch(() => undefined)) throw unusable(path, 'it exists already')
    const beside = `${path}.new`
    try {
      await rm(beside, { recursive: true, force: true })
      await makeFolder(beside, 0o700)
      await this.#copyTo(beside)
      await syncFolder(beside)
      await rename(beside, path)
      await syncFolder(dirname(join(path)))
    } catch (error) {
      await rm(beside, { recursive: true, force: true }).catch(() => {})
      throw error instanceof StoreError ? error : unusable(path, error)
    }
  }

  async #copyTo(path: string): Promise<void> {
    const level = this.#database.current()
    const copy = await openLevel(path)
    const snapshot = level.snapshot()
    const iterator = level.iterator({ snapshot })
    try {
      for (;;) {
        const entries = await iterator.nextv(COPIED_AT_ONCE)
        if (entries.length === 0) break
        for (const [key, text] of entries) this.#jsonOf(key, text)
        await copy.batch(entries.map(([key, value]) => ({ type: 'put', key, value })))
      }
      // Moves everything from logs into tables, which are synced.
      await copy.compactRange('', '\uffff')
    } finally {
      await iterator.close()
      await snapshot.close()
      await copy.close()
    }
  }

  health(): StoreHealth {
    return { ...this.#database.health(), damagedReads: this.#damagedReads }
  }

  async close(): Promise<void> {
    await this.#writing
    await this.#database.close()
  }

  #jsonOf(key: string, text: string): string {
    try {
      return jsonOf(key, text)
    } catch (error) {
      this.#damagedReads++
      throw error
    }
  }

  async #read<T>(work: (level: Level) => Promise<T>): Promise<T> {
    try {
      return await this.#database.read(work)
    } catch (error) {
      throw unusable(this.#path, error)
    }
  }
}

/** Frozen, since it is shared. */
function parse(json: string): unknown {
  return JSON.parse(json, (_key, value: unknown) =>
    typeof value === 'object' && value !== null ? Object.freeze(value) : value,
  )
}

/**
 * The text of a value in LevelDB: a checksum of key and value in 8 hexadecimal digits, a space, and the value as JSON.
 * LevelDB does not verify the checksums of its tables when reading, and Node.js cannot enable that. Values saved
 * without a checksum by earlier versions are plain JSON, which never begins like that.
 */

const HAS_CHECK = /^[0-9a-f]{8} /
const CHECK_LENGTH = 9

function checkedText(key: string, json: string): string {
  return `${sumOf(key, json)} ${json}`
}

/** The JSON of a stored text. Throws StoreError SLUICE_STORE_DAMAGED if it is not what was saved under the key. */
function jsonOf(key: string, text: string): string {
  if (!HAS_CHECK.test(text)) {
    if (isJson(text)) return text
  } else if (text.slice(0, CHECK_LENGTH - 1) === sumOf(key, text.slice(CHECK_LENGTH))) return text.slice(CHECK_LENGTH)
  const message = `the store is damaged: the record ${key} is not the one that was saved. Check the disk, and put a backup in place with "sluice admin restore --replace"`
  throw new StoreError('SLUICE_STORE_DAMAGED', message)
}

function sumOf(key: string, json: string): string {
  return crc32(json, crc32(key)).toString(16).padStart(8, '0')
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
