import { readdirSync, readFileSync, renameSync, statSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Logger } from 'pino'
import type { Checkpoints } from '../../../core/component.js'
import { errorCode, errorText } from '../../../core/errors.js'
import { CHECK_DISK, type Fact } from '../../../core/fact.js'
import { NewerFormat, refuseNewer, StateUnreadable } from '../../../core/unreadable.js'
import { writeAtomic } from '../../../lib/files/atomic-file.js'
import { makeFolder } from '../../../lib/files/make-folder.js'
import { measureWork, type TimerClock } from '../../../lib/time.js'
import { TimeSlices } from '../../../lib/time-slices.js'

/**
 * Saved positions: one file per source in `data_dir/checkpoints`. A file has two lines: a header with the checksum of
 * the second line, and the source's document. The header also says when the source had last read all of its input. Each write replaces the file atomically and keeps the previous version.
 * If a file is damaged, its previous version is used, which repeats about a second of events.
 *
 * No problem with these files ends the daemon. Failed writes are retried, and damaged files are set aside. A file that
 * cannot be read, or that has a later format, counts neither as missing nor as damaged. Its source waits until the file
 * can be read.
 */

const FORMAT = 1
const INTERVAL_MS = 1000
/** Building documents takes at most 1/20 of the process's time. */
const BUSY_SHARE = 20
/** A save, including its waits for other work, takes at most 1/4 of the time. */
const WRITING_SHARE = 4
const RETRY_MAX_MS = 30_000
/** Maximum number of damaged files kept per source. */
const MAX_CORRUPT = 5

export interface UnsavedPositions {
  readonly source: string
  readonly file: string
  readonly error: string
  /** When the positions were last saved, wall clock in milliseconds; undefined if they were not saved in this run. */
  readonly savedAt: number | undefined
}

interface CheckpointCounts {
  written: number
  failed: number
  corrupt: number
}

/** The positions of all sources in `dataDir`. This process must hold the lock of that folder. */
export class CheckpointStore {
  readonly counts: CheckpointCounts = { written: 0, failed: 0, corrupt: 0 }
  readonly #folder: string
  readonly #shared: Shared
  readonly #open = new Map<string, SourceCheckpoints>()
  /** Unsaved documents of released sources, by source id. */
  readonly #unsaved = new Map<string, Saved>()

  constructor(dataDir: string, log: Logger, clock: TimerClock, intervalMs = INTERVAL_MS) {
    this.#folder = join(dataDir, 'checkpoints')
    this.#shared = { log, clock, intervalMs, counts: this.counts }
  }

  forSource(id: string): SourceCheckpoints {
    let checkpoints = this.#open.get(id)
    if (!checkpoints) {
      checkpoints = new SourceCheckpoints(this.#folder, id, this.#shared)
      if (this.#unsaved.has(id)) checkpoints.takeOver(this.#unsaved.get(id)!)
      this.#unsaved.delete(id)
      this.#open.set(id, checkpoints)
    }
    return checkpoints
  }

  /** Writes all changes. If a write fails, logs that and resolves with false. */
  async flush(): Promise<boolean> {
    const results = await Promise.allSettled([...this.#open.values()].map(checkpoints => checkpoints.flush()))
    return results.every(({ status }) => status === 'fulfilled')
  }

  unsaved(): UnsavedPositions[] {
    return [...this.#open.values()].flatMap(checkpoints => checkpoints.unsaved ?? [])
  }

  /**
   * Closes the positions of these sources. The next `forSource` reads them from disk. If they could not be saved,
   * `forSource` takes them from memory, but only until the next call of `release`.
   */
  release(ids: readonly string[]): void {
    this.#unsaved.clear()
    for (const id of ids) {
      const checkpoints = this.#open.get(id)
      if (checkpoints?.unsaved)
        this.#unsaved.set(id, { document: checkpoints.document(), caughtUpAt: checkpoints.caughtUpAt })
      checkpoints?.close()
      this.#open.delete(id)
    }
  }

  close(): void {
    for (const checkpoints of this.#open.values()) checkpoints.close()
  }
}

interface Saved {
  readonly document: unknown
  /** Wall clock in milliseconds; undefined: never. */
  readonly caughtUpAt: number | undefined
}

type Loaded =
  | ({ readonly state: 'whole' } & Saved)
  | { readonly state: 'missing' }
  | { readonly state: 'damaged'; readonly aside?: string | undefined }

/** The newest intact document of a source; undefined if there is none. Changes nothing. */
export function savedDocument(path: string): unknown {
  const newest = readFile(path)
  const found = newest.state === 'whole' ? newest : readFile(`${path}.1`)
  return found.state === 'whole' ? found.document : undefined
}

interface Head {
  readonly sluice_checkpoint: number
  readonly crc32: number
  /** Null: the source has never caught up. Undefined in files of earlier versions. */
  readonly caught_up?: number | null
}

/** Throws StateUnreadable if the file exists but cannot be read. */
function readFile(path: string): Loaded {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return { state: 'missing' }
    throw new StateUnreadable(path, error)
  }
  try {
    const [head = '', document = ''] = text.split('\n')
    const { sluice_checkpoint: format, crc32: sum, caught_up } = JSON.parse(head) as Head
    refuseNewer(format, FORMAT)
    if (format === FORMAT && sum === crc32(document)) {
      // Earlier versions did not save this time. The source had read what it saved.
      const caughtUpAt = caught_up === undefined ? statSync(path).mtimeMs : (caught_up ?? undefined)
      return { state: 'whole', document: JSON.parse(document), caughtUpAt }
    }
  } catch (error) {
    if (error instanceof NewerFormat) throw new StateUnreadable(path, error)
    // If the file is incomplete, empty or not a checkpoint, it counts as damaged, as with a wrong checksum.
  }
  return { state: 'damaged' }
}

const OLD_S = 60

interface Shared {
  readonly log: Logger
  readonly clock: TimerClock
  readonly intervalMs: number
  readonly counts: CheckpointCounts
}

class SourceCheckpoints implements Checkpoints {
  readonly file: string
  readonly #folder: string
  readonly #id: string
  readonly #shared: Shared
  #saved: Saved | undefined
  #snapshot: (() => unknown) | undefined
  #caughtUpAt: (() => number | undefined) | undefined
  #dirty = false
  #savedAt = 0
  #writing: Promise<void> | undefined
  /** Monotonic time before which nothing is written. */
  #notBefore = 0
  #cancel: (() => void) | undefined
  #failures = 0
  #loggedCause = ''
  /** Why the last save failed; undefined if it succeeded. */
  #failure: string | undefined
  #closed = false

  constructor(folder: string, id: string, shared: Shared) {
    this.#folder = folder
    this.#id = id
    this.file = join(folder, `${encodeURIComponent(id)}.json`)
    this.#shared = shared
  }

  read(): unknown {
    this.#saved ??= this.#load()
    return this.#saved.document
  }

  provide(snapshot: () => unknown): void {
    this.#snapshot = snapshot
  }

  get caughtUpAt(): number | undefined {
    return this.#caughtUpAt ? this.#caughtUpAt() : this.#saved?.caughtUpAt
  }

  trackCaughtUp(caughtUpAt: () => number | undefined): void {
    this.#caughtUpAt = caughtUpAt
  }

  /** The current state, in the same form as if it had been saved and read again. */
  document(): unknown {
    return JSON.parse(JSON.stringify(this.#snapshot?.()))
  }

  /** Starts from a document that the predecessor could not save. */
  takeOver(saved: Saved): void {
    this.#saved = saved
    this.#snapshot = () => saved.document
    this.changed()
  }

  get unsaved(): UnsavedPositions | undefined {
    if (this.#failure === undefined) return undefined
    return { source: this.#id, file: this.file, error: this.#failure, savedAt: this.#savedAt || undefined }
  }

  /** Whether positions cannot be saved. Saving is stuck if they must be saved, but were not for OLD_S seconds. */
  get fact(): Fact {
    const created = this.#shared.clock.wall()
    return {
      name: 'sluice_checkpoint_unsaved',
      help: 'Whether the last attempt to save the positions of a source failed.',
      read: () => (this.#failure === undefined ? 0 : 1),
      problem: (failed, { id, wall }) => {
        const age = this.#snapshot ? (wall - (this.savedAt || created)) / 1000 : 0
        const since = `have not been saved for ${Math.round(age)} s`
        return (
          (failed > 0 || age > OLD_S) && {
            gravity: 'repeated',
            what: failed ? `${id}: its positions cannot be saved` : `${id}: its positions ${since}`,
            ...(failed && age >= 1 && { detail: `They ${since}.` }),
            todo: `After a restart, events sent since then would be sent again. ${CHECK_DISK} (SLUICE_CHECKPOINT_NOT_SAVED).`,
          }
        )
      },
    }
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
    this.#cancel = clock.after(waitMs, () => {
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

  /** Writes the current state. If that fails, logs and counts the error, and rejects. */
  #write(urgent = false): Promise<void> {
    this.#writing ??= this.#save(urgent).finally(() => {
      this.#writing = undefined
      this.#schedule()
    })
    return this.#writing
  }

  /** If `urgent`, someone asked for this save, so the next save need not wait for `intervalMs`. */
  async #save(urgent: boolean): Promise<void> {
    const { clock, intervalMs, counts } = this.#shared
    if (!this.#snapshot) return
    const started = clock.now()
    const workMs = measureWork(clock)
    const takenAt = clock.wall()
    this.#dirty = false
    try {
      const slices = new TimeSlices(clock)
      const caught_up = this.caughtUpAt ?? null
      const document = await textOf(this.#snapshot(), slices)
      if (slices.due) await slices.pause()
      const head = { sluice_checkpoint: FORMAT, source: this.#id, crc32: crc32(document), caught_up }
      slices.stop()
      const busyMs = Math.min(workMs(), slices.busyMs)
      await makeFolder(this.#folder, 0o700)
      await writeAtomic(this.file, `${JSON.stringify(head)}\n${document}\n`, `${this.file}.1`)
      counts.written++
      this.#savedAt = takenAt
      this.#failures = 0
      this.#failure = undefined
      const now = clock.now()
      const restMs = Math.max(urgent ? 0 : intervalMs, BUSY_SHARE * busyMs, WRITING_SHARE * (now - started))
      this.#notBefore = Math.max(this.#notBefore, now + restMs)
      if (this.#loggedCause) this.#shared.log.info({ source: this.#id }, 'positions can be saved again')
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
      { code: 'SLUICE_CHECKPOINT_NOT_SAVED', source: this.#id, file: this.file, cause, error: errorText(error) },
      'cannot save positions; retrying. A restart would deliver the events since the last save again',
    )
  }

  /** The newest intact document; null if all documents are damaged, undefined if there are none. */
  #load(): Saved {
    const newest = this.#loadFile(this.file)
    if (newest.state === 'whole') return newest
    const before = this.#loadFile(`${this.file}.1`)
    if (before.state === 'whole') {
      if (newest.state === 'damaged')
        this.#reportDamaged('the previous save is used; some lines may be repeated', newest.aside)
      return before
    }
    if (newest.state === 'missing' && before.state === 'missing') return { document: undefined, caughtUpAt: undefined }
    const aside = newest.state === 'damaged' ? newest.aside : before.state === 'damaged' ? before.aside : undefined
    this.#reportDamaged('the source starts from the beginning of every file; lines may be repeated', aside)
    return { document: null, caughtUpAt: undefined }
  }

  #reportDamaged(meaning: string, aside: string | undefined): void {
    const fields = { code: 'SLUICE_CHECKPOINT_DAMAGED', source: this.#id, file: this.file, set_aside: aside, meaning }
    this.#shared.log.error(fields, 'saved positions are damaged; the file was renamed')
  }

  #loadFile(path: string): Loaded {
    const loaded = readFile(path)
    return loaded.state === 'damaged' ? { ...loaded, aside: this.#setAside(path) } : loaded
  }

  /** Renames a damaged file. Returns its new name; undefined if that failed. */
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
      // On failure, the damaged file keeps its name until the next save replaces it.
      return undefined
    }
  }
}

/** The document as JSON. Turns the items of iterables into text in slices, because there may be many. */
async function textOf(document: unknown, slices: TimeSlices): Promise<string> {
  if (typeof document !== 'object' || document === null || Array.isArray(document)) return JSON.stringify(document)
  const members: string[] = []
  for (const [name, value] of Object.entries(document)) {
    if (slices.due) await slices.pause()
    const text = isLazy(value) ? await textOfItems(value, slices) : JSON.stringify(value)
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`)
  }
  return `{${members.join()}}`
}

async function textOfItems(items: Iterable<unknown>, slices: TimeSlices): Promise<string> {
  const texts: string[] = []
  await slices.each(items, item => texts.push(JSON.stringify(item)))
  if (slices.due) await slices.pause()
  return `[${texts.join()}]`
}

function isLazy(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value && !Array.isArray(value)
}
