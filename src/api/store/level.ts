import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { errorCode, errorText } from '../../core/errors.js'
import { syncFolder } from '../../lib/atomic-file.js'
import { Reads } from './reads.js'
import { type Change, type Entry, type Expected, type ListOptions, type Store, StoreError } from './store.js'

/**
 * The store in LevelDB. What it rests on:
 * - One process has it open: LevelDB's own lock, which ends with the process however that ends.
 * - A write is one batch, synced before it resolves; after a kill its log is read again up to the last whole batch.
 * - Writes that come while one is being synced share the next batch. Each is judged by what is before it in the batch.
 * - What is remembered of reads is forgotten before a write resolves.
 */

/** Of reads, in each of two generations. */
const READS_BYTES = 32 * 1024 * 1024
/** Entries that a backup copies at a time. */
const COPIED_AT_ONCE = 500

interface Waiting {
  readonly changes: readonly Change[]
  readonly expected: readonly Expected[]
  readonly done: () => void
  readonly failed: (error: unknown) => void
}

type Level = ClassicLevel<string, string>

/** Opens the store in the folder `path`, which is made if it is missing. */
export async function openLevelStore(path: string): Promise<Store> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw unusable(path, error)
  }
  return new LevelStore(await open(path), path)
}

async function open(path: string): Promise<Level> {
  const level: Level = new ClassicLevel(path)
  try {
    await level.open()
    return level
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined
    if (errorCode(cause) !== 'LEVEL_LOCKED') throw unusable(path, cause ?? error)
    const message = `the store ${path} is in use by another sluice serve; stop that one first, or give this one a data_dir of its own`
    throw new StoreError('SLUICE_STORE_IN_USE', message, error)
  }
}

function unusable(path: string, error: unknown): StoreError {
  return new StoreError('SLUICE_STORE_UNUSABLE', `the store ${path} cannot be used: ${errorText(error)}`, error)
}

class LevelStore implements Store {
  readonly #level: Level
  readonly #path: string
  readonly #reads = new Reads(READS_BYTES)
  readonly #watches: { readonly prefix: string; readonly changed: () => void }[] = []
  #waiting: Waiting[] = []
  #writing: Promise<void> | undefined

  constructor(level: Level, path: string) {
    this.#level = level
    this.#path = path
  }

  async get(key: string): Promise<unknown> {
    const known = this.#reads.value(key)
    if (known) return known.value
    const { generation } = this.#reads
    const text = await this.#try(() => this.#level.get(key))
    const value = text === undefined ? undefined : parse(text)
    this.#reads.keep(key, value, text?.length ?? 0, generation)
    return value
  }

  async list(prefix: string, options: ListOptions = {}): Promise<readonly Entry[]> {
    const known = this.#reads.list(prefix, options)
    if (known) return known
    const { generation } = this.#reads
    const { after, limit = -1, reverse = false } = options
    // The character behind the slash that ends the prefix.
    const end = `${prefix.slice(0, -1)}0`
    const range = reverse
      ? { gt: prefix, lt: after !== undefined && after < end ? after : end }
      : { gt: after !== undefined && after > prefix ? after : prefix, lt: end }
    const found = await this.#try(() => this.#level.iterator({ ...range, limit, reverse }).all())
    const list = Object.freeze(found.map(([key, text]) => ({ key, value: parse(text) })))
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
    // Whoever writes in the same turn of the loop is in the first batch.
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
        text === undefined ? { type: 'del' as const, key } : { type: 'put' as const, key, value: text },
      )
      if (operations.length > 0) await this.#level.batch(operations, { sync: true })
    } catch (error) {
      // What of it is on disk is not known: nobody is told that it is, and nothing that was read before is relied on.
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

  /** The texts of everything that is expected in a group. */
  async #present(group: readonly Waiting[]): Promise<Map<string, string | undefined>> {
    const keys = [...new Set(group.flatMap(({ expected }) => expected.map(({ key }) => key)))]
    if (keys.length === 0) return new Map()
    const texts = await this.#level.getMany(keys)
    return new Map(keys.map((key, i) => [key, texts[i]]))
  }

  async backup(path: string): Promise<void> {
    if (await stat(path).catch(() => undefined)) throw unusable(path, 'it exists already')
    const beside = `${path}.new`
    try {
      await rm(beside, { recursive: true, force: true })
      await mkdir(beside, { recursive: true, mode: 0o700 })
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
    const copy = await open(path)
    const snapshot = this.#level.snapshot()
    const iterator = this.#level.iterator({ snapshot })
    try {
      for (;;) {
        const entries = await iterator.nextv(COPIED_AT_ONCE)
        if (entries.length === 0) break
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

  async close(): Promise<void> {
    await this.#writing
    await this.#level.close()
  }

  async #try<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (error) {
      throw unusable(this.#path, error)
    }
  }
}

/** Frozen, since it is shared. */
function parse(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown) =>
    typeof value === 'object' && value !== null ? Object.freeze(value) : value,
  )
}
