import { randomBytes } from 'node:crypto'
import { open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../../core/errors.js'
import { every } from '../../../lib/time.js'
import { findTornLogs, repairLog } from './check-logs.js'
import { StoreError, type StoreHealth } from './store.js'

export type Level = ClassicLevel<string, string>
type Operation = { type: 'put'; key: string; value: string } | { type: 'del'; key: string }

/** Space that LevelDB needs to open in addition to the size of the logs: a manifest, a log, merged tables. */
const ROOM_TO_OPEN = 1024 * 1024
const PROBE = 'room.probe'
/** Interval of attempts to open it again while there are no writes. */
const TRY_EVERY_MS = 10_000

export function unusable(path: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error
  return new StoreError('SLUICE_STORE_UNUSABLE', `the store ${path} cannot be used: ${errorText(error)}`, error)
}

/** Opens LevelDB after checking its logs. Throws StoreError. */
export async function openLevel(path: string, log?: Logger): Promise<Level> {
  try {
    await rm(join(path, PROBE), { force: true })
    const torn = await findTornLogs(path)
    if (torn.length > 0) await requireUnused(path)
    for (const one of torn) {
      await repairLog(path, one)
      log?.warn(
        { code: 'SLUICE_STORE_REPAIRED', file: one.file, places: one.places, records: one.records.length },
        'removed incomplete writes from the log of the store and kept all complete ones; the original is beside it as .damaged',
      )
    }
    // Created only now: it opens itself in the next turn of the event loop.
    const level: Level = new ClassicLevel(path)
    await level.open()
    return level
  } catch (error) {
    throw explained(path, error)
  }
}

/** Throws SLUICE_STORE_IN_USE if a process has the store open. Neither reads nor changes its content. */
export async function requireUnused(path: string): Promise<void> {
  const level: Level = new ClassicLevel(path)
  try {
    // LevelDB takes its lock before it notices that the store exists.
    await level.open({ createIfMissing: false, errorIfExists: true })
    await level.close()
  } catch (error) {
    const explanation = explained(path, error)
    if (explanation.code === 'SLUICE_STORE_IN_USE') throw explanation
  }
}

function explained(path: string, error: unknown): StoreError {
  const cause = error instanceof Error ? error.cause : undefined
  if (errorCode(cause) !== 'LEVEL_LOCKED') return unusable(path, cause ?? error)
  const message = `the store ${path} is in use by another sluice serve; stop that process, or configure another data_dir`
  return new StoreError('SLUICE_STORE_IN_USE', message, error)
}

/**
 * A LevelDB that is opened again after a failed write, before the next one. A failed write may leave a part of a record
 * at the end of the log. LevelDB would append to it, and could not read the appended records after a crash. When it is
 * opened again, it reads its log, moves all complete records into tables, and starts a new log.
 *
 * While the disk is full, it stays open for reading and rejects writes: it is closed only when there is room to open it
 * again.
 */
export class LevelDatabase {
  readonly #path: string
  readonly #log: Logger | undefined
  /** Called when it was opened again: a write that failed may be on the disk nevertheless. */
  reopened: () => void = () => {}
  /** Undefined if it could not be opened again. */
  #level: Level | undefined
  /** Why it must be opened again before the next write. */
  #failure: unknown
  #opening: Promise<void> | undefined
  /** Whether reads wait until it is open again. */
  #blocked = false
  #readers = 0
  #lastReaderLeft = () => {}
  #closed = false
  #stopTrying: (() => void) | undefined
  #failedWrites = 0
  #reopens = 0
  /** Identifies the lock file of the open database. */
  #lock: string | undefined
  /** The folder was removed or replaced while it is open. */
  #isAway = false

  static async open(path: string, log: Logger | undefined): Promise<LevelDatabase> {
    const level = await openLevel(path, log)
    return new LevelDatabase(path, level, await lockIn(path), log)
  }

  private constructor(path: string, level: Level, lock: string | undefined, log: Logger | undefined) {
    this.#path = path
    this.#level = level
    this.#lock = lock
    this.#log = log
  }

  health(): Omit<StoreHealth, 'damagedReads'> {
    return {
      writable: this.#failure === undefined && !this.#isAway,
      failedWrites: this.#failedWrites,
      reopens: this.#reopens,
    }
  }

  async read<T>(work: (level: Level) => Promise<T>): Promise<T> {
    while (this.#blocked) await this.#opening?.catch(() => {})
    if (!this.#level) await this.#openAgain()
    this.#readers++
    try {
      return await work(this.#level!)
    } finally {
      if (--this.#readers === 0) this.#lastReaderLeft()
    }
  }

  /** One write at a time. Resolves when it is synced; if it rejects, it is unknown whether the data is on the disk. */
  async write(operations: Operation[]): Promise<void> {
    try {
      await this.#requireInPlace()
      if (this.#failure !== undefined) await this.#openAgain()
      try {
        await this.#batch(operations)
      } catch (error) {
        if (this.#closed) throw error
        this.#failedWrites++
        // The problem may be over, and repeating the same operations has the same result.
        await this.#openAgain()
        await this.#batch(operations)
      }
      // LevelDB continues to write to files that were removed.
      await this.#requireInPlace()
    } catch (error) {
      this.#failedWrites++
      throw this.#closed ? error : unwritable(this.#path, error)
    }
  }

  async #batch(operations: Operation[]): Promise<void> {
    try {
      await this.#level!.batch(operations, { sync: true })
    } catch (error) {
      if (!this.#closed) {
        this.#failure = error
        this.#stopTrying ??= every(TRY_EVERY_MS, () => void this.#openAgain().catch(() => {}))
        this.#log?.error(
          { code: 'SLUICE_STORE_WRITE_FAILED', path: this.#path, error: errorText(causeOf(error)) },
          'a write to the store failed; it must be opened again before anything else is saved. Check the disk of data_dir',
        )
      }
      throw error
    }
  }

  /** Throws StoreError if the open database is no longer the one at its path. */
  async #requireInPlace(): Promise<void> {
    const lock = await lockIn(this.#path)
    if (lock === undefined || this.#lock === undefined || lock === this.#lock) {
      if (this.#isAway) this.#log?.info({ path: this.#path }, 'the store is back in its place; saving changes again')
      this.#isAway = false
      return
    }
    const message = `the store ${this.#path} was removed or replaced while the service uses it; put it back, or restart the service with the one that is there now`
    const code = 'SLUICE_STORE_REPLACED'
    if (!this.#isAway) this.#log?.error({ code, path: this.#path, error: message }, 'changes cannot be saved')
    this.#isAway = true
    throw new StoreError('SLUICE_STORE_UNUSABLE', message)
  }

  /** For work that may fail when the database is opened again, such as a backup. */
  current(): Level {
    if (!this.#level) throw unusable(this.#path, this.#failure)
    return this.#level
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stopTrying?.()
    await this.#opening?.catch(() => {})
    await this.#level?.close()
  }

  #openAgain(): Promise<void> {
    if (this.#closed) return Promise.reject(unusable(this.#path, 'it is closed'))
    this.#opening ??= this.#closeAndOpen().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #closeAndOpen(): Promise<void> {
    await this.#requireInPlace()
    await requireRoom(this.#path)
    this.#blocked = true
    try {
      if (this.#readers > 0) await new Promise<void>(resolve => (this.#lastReaderLeft = resolve))
      const before = this.#level
      this.#level = undefined
      await before?.close()
      this.#level = await openLevel(this.#path, this.#log)
      this.#lock = await lockIn(this.#path)
    } finally {
      this.#blocked = false
    }
    this.#stopTrying?.()
    this.#stopTrying = undefined
    this.#failure = undefined
    this.#reopens++
    this.reopened()
    this.#log?.warn({ path: this.#path }, 'opened the store again after a failed write; saving changes again')
  }
}

/**
 * Identifies the lock file of LevelDB: it exists as long as the store, and no other file gets its inode while it is
 * open. Empty if it is missing. Undefined if this cannot be determined, which is no reason to reject writes.
 */
async function lockIn(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(join(path, 'LOCK'), { bigint: true })
    return `${dev} ${ino}`
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '') ? '' : undefined
  }
}

function unwritable(path: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error
  const message = `the store ${path} cannot save changes: ${errorText(causeOf(error))}. Make room on its disk, or repair it; the service then continues by itself`
  return new StoreError('SLUICE_STORE_UNUSABLE', message, error)
}

/** Throws the error of the file system if there is no room to open the store. */
async function requireRoom(path: string): Promise<void> {
  const probe = join(path, PROBE)
  try {
    let bytes = ROOM_TO_OPEN
    for (const name of await readdir(path)) if (name.endsWith('.log')) bytes += (await stat(join(path, name))).size
    const file = await open(probe, 'w', 0o600)
    try {
      // Random, since some file systems compress.
      const part = randomBytes(Math.min(bytes, ROOM_TO_OPEN))
      for (let left = bytes; left > 0; left -= part.length) await file.writeFile(part.subarray(0, left))
      await file.sync()
    } finally {
      await file.close()
    }
  } finally {
    await rm(probe, { force: true })
  }
}

function causeOf(error: unknown): unknown {
  return (error instanceof Error ? error.cause : undefined) ?? error
}
