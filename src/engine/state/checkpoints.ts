import { readdirSync, readFileSync, renameSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Logger } from 'pino'
import type { Checkpoints } from '../../core/component.js'
import { errorCode, errorText } from '../../core/errors.js'
import { NewerFormat, refuseNewer, StateUnreadable } from '../../core/unreadable.js'
import { writeAtomic } from '../../lib/files/atomic-file.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import { after, type Clock } from '../../lib/time.js'

/**
 * Saved positions: a file per source in `data_dir/checkpoints`, of two lines: what it is and the checksum of the
 * second, and the source's document. Invariants: a file is replaced as a whole, and the one before it is kept, so
 * that a damaged one costs a second of repetition. Nothing that happens to these files ends the daemon: what cannot
 * be written is tried again, what is damaged is set aside. A file that cannot be read, or is of a later format, is
 * neither missing nor damaged: its source waits until it can be read.
 */

const FORMAT = 1
const INTERVAL_MS = 1000
/** Making a document takes at most this share of the time of the process. */
const BUSY_SHARE = 20
/** Writing takes at most this share of the time, in which other work may make it wait. */
const WRITING_SHARE = 4
const RETRY_MAX_MS = 30_000
/** Damaged files kept for each source. */
const MAX_CORRUPT = 5

/** Where the positions of a source are saved; with `.1` behind it, those of the save before. */
export function checkpointPath(dataDir: string, source: string): string {
  return join(dataDir, 'checkpoints', `${encodeURIComponent(source)}.json`)
}

/** Positions that could not be saved the last time that it was tried. */
export interface UnsavedPositions {
  readonly source: string
  readonly file: string
  readonly error: string
  /** When they were saved before; undefined: not in this run. */
  readonly savedAt: number | undefined
}

export interface CheckpointStore {
  /** The positions of one source. */
  forSource(id: string): Checkpoints
  /** Writes everything that changed; false when something could not be written (it was logged). */
  flush(): Promise<boolean>
  /** Nobody uses the positions of this source any more; who asks for them next reads what is on the disk. */
  release(id: string): void
  /** No more writing. */
  close(): void
  unsaved(): UnsavedPositions[]
  /** Failed writes, and damaged files found, so far. */
  readonly counts: Readonly<CheckpointCounts>
}

interface CheckpointCounts {
  written: number
  failed: number
  corrupt: number
}

/** Opens the store in `dataDir`, which this process holds the lock of. */
export function openCheckpoints(dataDir: string, log: Logger, clock: Clock, intervalMs = INTERVAL_MS): CheckpointStore {
  const folder = join(dataDir, 'checkpoints')
  const counts: CheckpointCounts = { written: 0, failed: 0, corrupt: 0 }
  const open = new Map<string, SourceCheckpoints>()
  return {
    counts,
    forSource(id) {
      let checkpoints = open.get(id)
      if (!checkpoints) {
        checkpoints = new SourceCheckpoints(folder, id, { log, clock, intervalMs, counts })
        open.set(id, checkpoints)
      }
      return checkpoints
    },
    async flush() {
      const results = await Promise.allSettled([...open.values()].map(checkpoints => checkpoints.flush()))
      return results.every(({ status }) => status === 'fulfilled')
    },
    unsaved: () => [...open.values()].flatMap(checkpoints => checkpoints.unsaved ?? []),
    release(id) {
      open.get(id)?.close()
      open.delete(id)
    },
    close() {
      for (const checkpoints of open.values()) checkpoints.close()
    },
  }
}

type Loaded =
  | { readonly state: 'whole'; readonly document: unknown }
  | { readonly state: 'missing' }
  | { readonly state: 'damaged'; readonly aside: string | undefined }

interface Shared {
  readonly log: Logger
  readonly clock: Clock
  readonly intervalMs: number
  readonly counts: CheckpointCounts
}

class SourceCheckpoints implements Checkpoints {
  readonly #folder: string
  readonly #path: string
  readonly #id: string
  readonly #shared: Shared
  #saved: { readonly document: unknown } | undefined
  #snapshot: (() => unknown) | undefined
  #dirty = false
  #savedAt = 0
  #writing: Promise<void> | undefined
  /** No write before this time, of the monotonic clock. */
  #notBefore = 0
  #cancel: (() => void) | undefined
  #failures = 0
  #loggedCause = ''
  /** Why the last save failed. */
  #failure: string | undefined
  #closed = false

  constructor(folder: string, id: string, shared: Shared) {
    this.#folder = folder
    this.#id = id
    this.#path = join(folder, `${encodeURIComponent(id)}.json`)
    this.#shared = shared
  }

  get file(): string {
    return this.#path
  }

  read(): unknown {
    this.#saved ??= { document: this.#load() }
    return this.#saved.document
  }

  provide(snapshot: () => unknown): void {
    this.#snapshot = snapshot
  }

  get unsaved(): UnsavedPositions | undefined {
    if (this.#failure === undefined) return undefined
    return { source: this.#id, file: this.#path, error: this.#failure, savedAt: this.#savedAt || undefined }
  }

  get savedAt(): number {
    return this.#dirty || this.#writing || !this.#snapshot ? this.#savedAt : this.#shared.clock.wall()
  }

  changed(): void {
    this.#dirty = true
    this.#schedule()
  }

  #schedule(): void {
    if (this.#cancel || this.#writing || this.#closed || !this.#dirty) return
    const { clock, intervalMs } = this.#shared
    const waitMs = Math.max(this.#notBefore - clock.now(), intervalMs / 10, 1)
    this.#cancel = after(waitMs, () => {
      this.#cancel = undefined
      this.#write().catch(() => {})
    })
  }

  async flush(): Promise<void> {
    while (this.#writing) await this.#writing.catch(() => {})
    this.#stopTimer()
    if (this.#dirty && !this.#closed) await this.#write(true)
  }

  close(): void {
    this.#closed = true
    this.#stopTimer()
  }

  #stopTimer(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** Writes the present state; rejects when that fails, which was logged and counted then. */
  #write(urgent = false): Promise<void> {
    this.#writing ??= this.#save(urgent).finally(() => {
      this.#writing = undefined
      this.#schedule()
    })
    return this.#writing
  }

  /** `urgent`: it was asked for, and does not put off the next save that is due. */
  async #save(urgent: boolean): Promise<void> {
    const { clock, intervalMs, counts } = this.#shared
    if (!this.#snapshot) return
    const started = clock.now()
    const takenAt = clock.wall()
    this.#dirty = false
    try {
      const document = JSON.stringify(this.#snapshot())
      const head = { sluice_checkpoint: FORMAT, source: this.#id, crc32: crc32(document) }
      const busyMs = clock.now() - started
      await makeFolder(this.#folder, 0o700)
      await writeAtomic(this.#path, `${JSON.stringify(head)}\n${document}\n`, `${this.#path}.1`)
      counts.written++
      this.#savedAt = takenAt
      this.#failures = 0
      this.#failure = undefined
      const now = clock.now()
      const restMs = Math.max(urgent ? 0 : intervalMs, BUSY_SHARE * busyMs, WRITING_SHARE * (now - started))
      this.#notBefore = Math.max(this.#notBefore, now + restMs)
      if (this.#loggedCause) this.#shared.log.info({ source: this.#id }, 'positions are saved again')
      this.#loggedCause = ''
    } catch (error) {
      this.#dirty = true
      counts.failed++
      this.#failure = errorText(error)
      this.#notBefore = clock.now() + Math.min(RETRY_MAX_MS, intervalMs * 2 ** this.#failures++)
      this.#report(error)
      throw error
    }
  }

  #report(error: unknown): void {
    const cause = errorCode(error) ?? errorText(error)
    if (this.#loggedCause === cause) return
    this.#loggedCause = cause
    this.#shared.log.error(
      { code: 'SLUICE_CHECKPOINT_NOT_SAVED', source: this.#id, file: this.#path, cause, error: errorText(error) },
      'positions cannot be saved; it is tried again, and until then a restart repeats what was delivered since',
    )
  }

  /** The newest document that is whole; null when there was one and none can be read. */
  #load(): unknown {
    const newest = this.#loadFile(this.#path)
    if (newest.state === 'whole') return newest.document
    const before = this.#loadFile(`${this.#path}.1`)
    if (before.state === 'whole') {
      if (newest.state === 'damaged')
        this.#reportDamaged('the positions of the save before are used; some lines may be repeated', newest.aside)
      return before.document
    }
    if (newest.state === 'missing' && before.state === 'missing') return undefined
    const aside = newest.state === 'damaged' ? newest.aside : before.state === 'damaged' ? before.aside : undefined
    this.#reportDamaged('the source starts from the beginning of every file; lines may be repeated', aside)
    return null
  }

  #reportDamaged(meaning: string, aside: string | undefined): void {
    const fields = { code: 'SLUICE_CHECKPOINT_DAMAGED', source: this.#id, file: this.#path, set_aside: aside, meaning }
    this.#shared.log.error(fields, 'saved positions are damaged and were set aside')
  }

  /** Throws StateUnreadable for a file that is there and cannot be read. */
  #loadFile(path: string): Loaded {
    let text: string
    try {
      text = readFileSync(path, 'utf8')
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return { state: 'missing' }
      throw new StateUnreadable(path, error)
    }
    try {
      const [head = '', document = ''] = text.split('\n')
      const { sluice_checkpoint: format, crc32: sum } = JSON.parse(head) as { sluice_checkpoint: number; crc32: number }
      refuseNewer(format, FORMAT)
      if (format === FORMAT && sum === crc32(document)) return { state: 'whole', document: JSON.parse(document) }
    } catch (error) {
      if (error instanceof NewerFormat) throw new StateUnreadable(path, error)
      // Torn, emptied, or not ours: as with a wrong checksum.
    }
    return { state: 'damaged', aside: this.#setAside(path) }
  }

  /** The new name; undefined when it could not be renamed. */
  #setAside(path: string): string | undefined {
    this.#shared.counts.corrupt++
    try {
      const prefix = `${encodeURIComponent(this.#id)}.json`
      const old = readdirSync(this.#folder).filter(name => name.startsWith(prefix) && name.includes('.corrupt-'))
      for (const name of old.sort().slice(0, -MAX_CORRUPT + 1)) unlinkSync(join(this.#folder, name))
      const at = new Date(this.#shared.clock.wall()).toISOString().replace(/[:.]/g, '')
      const aside = `${path}.corrupt-${at}`
      renameSync(path, aside)
      return aside
    } catch {
      // It stays where it is, and is replaced by the next save.
      return undefined
    }
  }
}
