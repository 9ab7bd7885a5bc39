import { type FileHandle, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { ClassicLevel } from 'classic-level'
import { syncFolder } from '../../../src/lib/files/atomic-file.js'
import { currentMachine } from '../machine.js'
import { framed, recovered } from './log-file.js'

/**
 * Puts a small LevelDB in the place of the native one, which would write to the real disk: a table with everything, and a log of what
 * was written since. What matters is as in LevelDB: a synced batch is safe, a failed one leaves a part of a record in the log, the
 * writer goes on behind it, and opening moves what the log has into a new table.
 */

const { AbstractIterator } = createRequire(createRequire(import.meta.url).resolve('classic-level'))('abstract-level')

type Operation = { readonly type: 'put' | 'del'; readonly key: string; readonly value?: string }

interface Range {
  readonly gt?: string
  readonly lt?: string
  readonly reverse?: boolean
  readonly limit?: number
}

interface State {
  readonly entries: Map<string, string>
  readonly log: FileHandle
  /** Where the writer believes that it is. */
  offset: number
  sequence: bigint
  readonly lock: string
  /** A failed sync ends all writing. */
  broken: unknown
}

const states = new WeakMap<object, State>()
/** The lock files of stores that are open. A process that was killed has locks of another number. */
const locks = new Set<string>()

const coded = (code: string, message: string) => Object.assign(new Error(message), { code })

async function lockAt(path: string): Promise<string> {
  const file = await open(`${path}/LOCK`, 'a+')
  const { dev, ino } = await file.stat()
  await file.close()
  return `${currentMachine().world.seed} ${dev} ${ino}`
}

/** The table and the number of the log, as CURRENT says. */
async function currentOf(path: string): Promise<{ table: string; number: number } | undefined> {
  const text = await readFile(`${path}/CURRENT`, 'utf8').catch(error => {
    if (error.code !== 'ENOENT') throw error
  })
  if (text === undefined) return undefined
  const number = Number(text)
  return { table: await readFile(`${path}/${nameOf(number)}.table`, 'utf8'), number }
}

const nameOf = (number: number) => String(number).padStart(6, '0')

async function writeSynced(path: string, content: string): Promise<void> {
  const file = await open(path, 'w')
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function recover(path: string, lock: string): Promise<State> {
  const current = await currentOf(path)
  const entries = new Map(current ? (JSON.parse(current.table) as [string, string][]) : [])
  let sequence = 1n
  if (current) {
    for (const record of recovered(await readFile(`${path}/${nameOf(current.number)}.log`))) {
      apply(entries, JSON.parse(record.toString('utf8', 12)) as Operation[])
      sequence = record.readBigUInt64LE(0) + 1n
    }
  }
  const number = (current?.number ?? 0) + 1
  const log = await open(`${path}/${nameOf(number)}.log`, 'w')
  try {
    await writeSynced(`${path}/${nameOf(number)}.table`, JSON.stringify([...entries]))
    await writeSynced(`${path}/CURRENT.tmp`, String(number))
    await syncFolder(path)
    await rename(`${path}/CURRENT.tmp`, `${path}/CURRENT`)
    await syncFolder(path)
  } catch (error) {
    await log.close()
    throw error
  }
  if (current) for (const end of ['log', 'table']) await rm(`${path}/${nameOf(current.number)}.${end}`).catch(() => {})
  return { entries, log, offset: 0, sequence, lock, broken: undefined }
}

function apply(entries: Map<string, string>, operations: readonly Operation[]): void {
  for (const { type, key, value } of operations) {
    if (type === 'put') entries.set(key, value!)
    else entries.delete(key)
  }
}

async function write(state: State, operations: readonly Operation[]): Promise<void> {
  if (state.broken) throw state.broken
  const head = Buffer.alloc(12)
  head.writeBigUInt64LE(state.sequence, 0)
  head.writeUInt32LE(operations.length, 8)
  state.sequence += BigInt(operations.length)
  const plain = operations.map(({ type, key, value }) => ({ type, key, value }))
  const bytes = framed(Buffer.concat([head, Buffer.from(JSON.stringify(plain))]), state.offset)
  // Also when the write fails.
  state.offset += bytes.length
  await state.log.writeFile(bytes)
  try {
    await state.log.sync()
  } catch (error) {
    state.broken = error
    throw error
  }
  apply(state.entries, operations)
}

function entriesIn({ entries }: State, { gt, lt, reverse, limit = -1 }: Range): [string, string][] {
  const found = [...entries].filter(([key]) => (gt === undefined || key > gt) && (lt === undefined || key < lt))
  found.sort(([a], [b]) => (a < b ? -1 : 1))
  if (reverse) found.reverse()
  return limit < 0 ? found : found.slice(0, limit)
}

class SimulatedIterator extends AbstractIterator {
  readonly #found: [string, string][]

  constructor(db: object, options: Range) {
    super(db, options)
    this.#found = entriesIn(states.get(db)!, options)
  }

  async _next(): Promise<[string, string] | undefined> {
    return this.#found.shift()
  }

  async _all(): Promise<[string, string][]> {
    return this.#found.splice(0)
  }
}

Object.assign(ClassicLevel.prototype, {
  async _open(this: ClassicLevel, options: { createIfMissing: boolean; errorIfExists: boolean }) {
    const path = this.location
    if (options.createIfMissing) await mkdir(path).catch(() => {})
    const lock = await lockAt(path)
    if (locks.has(lock)) throw coded('LEVEL_LOCKED', 'the store is locked')
    if (options.errorIfExists && (await currentOf(path))) throw coded('LEVEL_CORRUPTION', 'the store exists')
    locks.add(lock)
    try {
      states.set(this, await recover(path, lock))
    } catch (error) {
      locks.delete(lock)
      throw error
    }
  },
  async _close(this: ClassicLevel) {
    const state = states.get(this)
    if (!state) return
    states.delete(this)
    locks.delete(state.lock)
    await state.log.close()
  },
  async _get(this: ClassicLevel, key: string) {
    return states.get(this)!.entries.get(key)
  },
  async _getMany(this: ClassicLevel, keys: readonly string[]) {
    const { entries } = states.get(this)!
    return keys.map(key => entries.get(key))
  },
  /** As it is used here, without the hooks and events that nobody has: they take more time than the write. */
  async batch(this: ClassicLevel, operations: readonly Operation[]) {
    const state = states.get(this)
    if (!state) throw coded('LEVEL_DATABASE_NOT_OPEN', 'the store is not open')
    await write(state, operations)
  },
  _iterator(this: ClassicLevel, options: Range) {
    return new SimulatedIterator(this, options)
  },
})
