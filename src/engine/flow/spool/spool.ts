import type { Spool, SpooledObject, StateFolder } from '../../../core/component.js'
import { DeliveryError, errorCode, errorText } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { newReading } from '../../../core/event/event-id.js'
import { NewerFormat, StateUnreadable } from '../../../core/unreadable.js'
import { sizeOfAll } from '../../../lib/formats/parts.js'
import type { TimerClock } from '../../../lib/time.js'
import { formatSize } from '../../../lib/units.js'
import { type Amount, add } from '../counters.js'
import { type BufferFolder, retried } from '../disk-buffer/files.js'
import { KnownIds, writtenAt } from './ids.js'
import {
  type Framed,
  isClosed,
  isObject,
  type ObjectFacts,
  ObjectFile,
  objectName,
  readIds,
  survey,
  writeIds,
} from './object-file.js'
import type { SpoolReport } from './spool-report.js'

/**
 * How long ids are kept after their events were written. Sources normally save their positions much sooner, but a disk
 * or another destination may delay this.
 */
const KEEP_IDS_MS = 60_000
/** For this long after the start, sources may read stored events again. */
const READ_AGAIN_MS = 600_000
/** Files with ids of recently sent objects. */
const SENT = /\.sent$/

/** Maximum number of open objects. To open another object, the least recently written object is closed. */
export const MOST_OBJECTS = 500
/** Maximum number of files. Each takes memory and at least one block on disk. */
const MOST_FILES = 100_000
const BLOCK = 4096
const UNREADABLE = 'spool_read'

export interface SpoolOptions {
  readonly folder: BufferFolder
  readonly state: Pick<StateFolder, 'hasRoom' | 'count'>
  readonly clock: TimerClock
  readonly report: SpoolReport
  /**
   * Maximum size of an object, in bytes as sent. When the object reaches this size or the maximum age, it is closed.
   */
  readonly maxObjectBytes: number
  readonly maxObjectAgeMs: number
  /** Maximum size of all files, in bytes. */
  readonly maxBytes: number
  /** The format of the content of new objects. */
  readonly format: string
  /** Sends the next request of an object. Returns true when the object is delivered. */
  send(object: ObjectFile, signal: AbortSignal): Promise<boolean>
}

/**
 * Collects events on disk into objects of a useful size. A partition has at most one open object. Closed objects wait
 * to be sent. Invariants:
 * - The spool is responsible for events once their record is synced.
 * - Once `next` has returned an object, nothing is appended to it. Its name and bytes never change, even after a kill.
 * - If a source reads events again soon after a kill, the spool recognizes them by the ids in object files and `.sent`
 *   files.
 * - The file of an object is removed when the receiver has accepted the object. If removing the file fails, the object
 *   is sent again.
 */
export class ObjectSpool implements Spool {
  readonly #options: SpoolOptions
  /** Open objects by partition, least recently written first. */
  readonly #open = new Map<string, ObjectFile>()
  /** Closed objects that are not being sent, in order. */
  readonly #closed: ObjectFile[] = []
  readonly #sending = new Set<ObjectFile>()
  /** Bytes about to be written. */
  #writing = 0
  readonly #appends = new Set<Promise<void>>()
  #cancelTimer: (() => void) | undefined
  #cancelKnown: (() => void) | undefined
  #isRecovered = false
  /** Damaged files of earlier runs. A file stays in this list until its events are counted as found and discarded. */
  readonly #unusable: (Amount & { readonly name: string })[] = []
  #known = new KnownIds([])
  /** Files with ids. `until`: when to remove the file, by the monotonic clock. */
  #sent: { readonly name: string; readonly until: number }[] = []
  #hasFolder = false
  #hasEnded = false
  changed: () => void = () => {}

  constructor(options: SpoolOptions) {
    this.#options = options
    options.state.count(() => this.bytes)
  }

  /** Recovers the objects of earlier runs. Throws StateUnreadable if a file cannot be read now. */
  async recover(): Promise<void> {
    if (this.#isRecovered) return
    const { folder, clock, report, format } = this.#options
    const found: ObjectFile[] = []
    const names = await folder.list()
    const ids: Buffer[] = []
    for (const name of names.filter(isObject)) {
      const file = await this.#found(name, ids).catch(error => {
        throw new StateUnreadable(`${folder.path}/${name}`, error)
      })
      if (file) found.push(file)
    }
    for (const file of found.sort((a, b) => a.facts.openedAt - b.facts.openedAt)) {
      if (file.isBroken) await file.cut().catch(error => report.notWritten(error))
      const mayGrow = !isClosed(file.name) && !file.isBroken && file.facts.format === format
      if (mayGrow && file.facts.openedAt <= clock.wall()) this.#put(file)
      else this.#closed.push(file)
    }
    for (const name of names.filter(name => SENT.test(name))) {
      ids.push(...(await readIds(folder, name).catch(() => [])))
      this.#sent.push({ name, until: clock.now() + KEEP_IDS_MS })
    }
    // Ids can have times after now, if they were written before the clock was set back. `last` ignores these times.
    const now = clock.wall()
    const last = ids.reduce((latest, one) => (writtenAt(one) <= now ? Math.max(latest, writtenAt(one)) : latest), 0)
    this.#known = new KnownIds(ids.filter(one => writtenAt(one) >= last - KEEP_IDS_MS))
    if (!this.#known.isEmpty)
      this.#cancelKnown = clock.after(READ_AGAIN_MS, () => {
        this.#known = new KnownIds([])
      })
    this.#isRecovered = true
    report.found(this.held, found.length)
    this.#setTimer()
  }

  async #found(name: string, ids: Buffer[]): Promise<ObjectFile | undefined> {
    const { folder, clock, report } = this.#options
    const file = await folder.open(name)
    try {
      const recent: Buffer[] = []
      let size = 0
      const found = await retried(async () => {
        recent.length = 0
        size = await file.size()
        // Keeps only recent ids. After a long outage, the file contains too many ids for memory.
        return await survey(file, size, one => {
          recent.push(Buffer.from(one))
          while (writtenAt(recent[0]!) < writtenAt(one) - KEEP_IDS_MS) recent.shift()
        })
      })
      ids.push(...recent)
      const { facts, end } = found
      const { from, to } = found.last
      // The last record of an open object may come from an unfinished write, so its events do not count as stored. If
      // the object is closed, the events of its last record do count.
      const known = isClosed(name) ? to : from
      const place = known.event > found.place.event ? known : found.place
      const age = Math.max(0, clock.wall() - (facts?.openedAt ?? 0))
      if (size > end && !isClosed(name)) report.cut(name, size - end, to.event - place.event)
      if (facts && found.pieces.length > 0)
        return ObjectFile.found(folder, name, { ...found, facts, place }, clock.now() - age)
      // The file has no record: the process was killed before it acknowledged the first events.
      if (place.event === 0) await folder.remove(name)
      else {
        await folder.rename(name, `${name}.damaged`)
        report.unusable(name, place.event)
        this.#unusable.push({ name, events: place.event, bytes: place.byte })
      }
      return undefined
    } finally {
      await file.close().catch(() => {})
    }
  }

  /** Whether an earlier run stored this event. If so, the source has now read it again. */
  isKnown(batch: EventBatch, i: number): boolean {
    return this.#known.has(batch, i)
  }

  /** Whether `isKnown` may return true. */
  get knows(): boolean {
    return !this.#known.isEmpty
  }

  get held(): Amount {
    const amount = { events: 0, bytes: 0 }
    for (const { held } of this.#all()) add(amount, held.events, held.bytes)
    for (const { events, bytes } of this.#unusable) add(amount, events, bytes)
    return amount
  }

  /** Size of all files, in whole blocks. */
  get maxBytes(): number {
    return this.#options.maxBytes
  }

  get bytes(): number {
    let bytes = this.#writing
    for (const file of this.#all()) bytes += sizeOf(file)
    return bytes
  }

  get objects(): { open: number; closed: number } {
    return { open: this.#open.size, closed: this.#closed.length + this.#sending.size }
  }

  get oldestAt(): number | undefined {
    let oldest: number | undefined
    for (const { facts } of this.#all()) oldest = Math.min(oldest ?? facts.openedAt, facts.openedAt)
    return oldest
  }

  /** Appends a record to the object of a partition. Calls for the same partition must not overlap. */
  append(partition: string, factsOf: (id: string) => ObjectFacts, framed: Framed, amount: Amount): Promise<void> {
    const done = this.#append(partition, factsOf, framed, amount).finally(() => {
      this.#appends.delete(done)
      this.#setTimer()
      this.changed()
    })
    this.#appends.add(done)
    return done
  }

  async #append(
    partition: string,
    factsOf: (id: string) => ObjectFacts,
    framed: Framed,
    { events, bytes }: Amount,
  ): Promise<void> {
    const { folder, clock, report } = this.#options
    const size = sizeOfAll(framed)
    this.#makeRoom(size)
    let file = this.#open.get(partition)
    if (file && this.#isDue(file)) {
      this.#close(file)
      file = undefined
    }
    if (!file) {
      const [first] = this.#idle
      if (first && this.#open.size >= MOST_OBJECTS) {
        report.crowded(MOST_OBJECTS)
        this.#close(first)
      }
      if (!this.#hasFolder) await folder.make()
      this.#hasFolder = true
      const id = newReading()
      file = new ObjectFile(folder, objectName(id), factsOf(id), clock.now())
    }
    this.#put(file)
    file.isBusy = true
    this.#writing += size
    try {
      await file.append(framed, events, bytes)
      report.written()
    } catch (error) {
      this.#hasFolder = false
      report.notWritten(error)
      throw new DeliveryError(`cannot write to the spool ${folder.path}: ${errorText(error)}`, {
        failure: 'retry',
        reason: `spool_${errorCode(error)?.toLowerCase() ?? 'failed'}`,
        cause: error,
      })
    } finally {
      file.isBusy = false
      this.#writing -= size
      if (file.end === 0) this.#open.delete(partition)
      else if (file.isBroken || this.#isDue(file)) this.#close(file)
    }
  }

  /**
   * If the spool has no room, closes all open objects and throws a DeliveryError. Otherwise, closes the largest open
   * objects until the remaining open objects fill at most half of the spool.
   */
  #makeRoom(bytes: number): void {
    const { maxBytes, state, report } = this.#options
    const idle = this.#idle.sort((a, b) => b.end - a.end)
    let openBytes = idle.reduce((sum, file) => sum + sizeOf(file), 0)
    const { bytes: used, objects } = this
    const files = objects.open + objects.closed
    const isFull = files >= MOST_FILES || (used > 0 && used + bytes > maxBytes)
    const hasRoom = !isFull && state.hasRoom(bytes)
    // Only closed objects are sent. If open objects could fill the spool, nothing would ever be sent.
    for (const file of idle) {
      if (hasRoom && openBytes <= maxBytes / 2) break
      openBytes -= sizeOf(file)
      this.#close(file)
    }
    if (hasRoom) {
      report.notFull()
      return
    }
    report.full(maxBytes, !isFull)
    const message = `the spool has ${formatSize(used)} in ${files} objects that wait to be sent; events wait until there is room`
    throw new DeliveryError(message, { failure: 'retry', reason: 'spool_full' })
  }

  /** Open objects that are not being written, least recently written first. */
  get #idle(): ObjectFile[] {
    return [...this.#open.values()].filter(({ isBusy }) => !isBusy)
  }

  #isDue({ size, openedAt }: ObjectFile): boolean {
    const { maxObjectBytes, maxObjectAgeMs, clock } = this.#options
    return size >= maxObjectBytes || clock.now() - openedAt >= maxObjectAgeMs
  }

  /** Makes `file` the open object of its partition. */
  #put(file: ObjectFile): void {
    const { partition } = file.facts
    const other = this.#open.get(partition)
    if (other && other !== file) this.#close(other)
    this.#open.delete(partition)
    this.#open.set(partition, file)
  }

  #close(file: ObjectFile): void {
    if (this.#open.get(file.facts.partition) !== file) return
    this.#open.delete(file.facts.partition)
    this.#closed.push(file)
  }

  #closeDue(all = false): void {
    for (const file of this.#idle) if (all || this.#isDue(file)) this.#close(file)
  }

  /** Sets a timer for the time when the oldest open object must be closed. */
  #setTimer(): void {
    const { clock, maxObjectAgeMs } = this.#options
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    // An object that is being written is closed after the write, if it is due then.
    const oldest = Math.min(...this.#idle.map(({ openedAt }) => openedAt))
    if (this.#hasEnded || oldest === Number.POSITIVE_INFINITY) return
    const ms = oldest + maxObjectAgeMs - clock.now()
    this.#cancelTimer = clock.after(Math.max(10, Math.ceil(ms)), () => {
      // Without this, the timer would fire again and again while a failing receiver keeps `next` from being called.
      this.#closeDue()
      this.changed()
      this.#setTimer()
    })
  }

  #forget(): void {
    const now = this.#options.clock.now()
    const isOld = ({ until }: { readonly until: number }) => until <= now
    for (const { name } of this.#sent.filter(isOld)) void this.#options.folder.remove(name).catch(() => {})
    this.#sent = this.#sent.filter(one => !isOld(one))
  }

  next(all: boolean): SpooledObject | undefined {
    this.#forget()
    for (const amount of this.#unusable.splice(0)) this.#options.report.missing(amount, `${amount.name}.damaged`)
    this.#closeDue(all)
    const first = this.#closed.shift()
    if (!first) return undefined
    this.#sending.add(first)
    let file = first
    return {
      send: async signal => {
        try {
          return await this.#send(file, signal)
        } catch (error) {
          const isUnreadable = error instanceof DeliveryError && error.reason === UNREADABLE
          if (isUnreadable && error.failure === 'retry') file = this.#postpone(file)
          throw error
        }
      },
      delivered: () => this.#delivered(file),
      release: () => {
        this.#sending.delete(file)
        this.#closed.unshift(file)
      },
    }
  }

  /** Puts an object that cannot be read behind the other closed objects. Returns the object to send in its place. */
  #postpone(file: ObjectFile): ObjectFile {
    this.#closed.push(file)
    this.#sending.delete(file)
    const next = this.#closed.shift()!
    this.#sending.add(next)
    return next
  }

  async #send(file: ObjectFile, signal: AbortSignal): Promise<boolean> {
    const { folder, send, report } = this.#options
    const unreadable = (error: unknown) => {
      const message = `cannot read ${folder.path}/${file.name}: ${errorText(error)}`
      const failure = error instanceof NewerFormat ? 'hold' : 'retry'
      return new DeliveryError(message, { failure, reason: UNREADABLE, cause: error })
    }
    try {
      report.missing(await file.finish(), file.name)
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw unreadable(error)
      const lost = file.held
      file.held = { events: 0, bytes: 0 }
      report.missing(lost, file.name)
      return true
    }
    try {
      return file.size === 0 || (await send(file, signal))
    } catch (error) {
      // Only reading the file fails with other errors.
      throw error instanceof DeliveryError || signal.aborted ? error : unreadable(error)
    } finally {
      file.release()
    }
  }

  async #delivered(file: ObjectFile): Promise<void> {
    const { folder, clock, report } = this.#options
    this.#sending.delete(file)
    report.delivered(file.held)
    const recent = file.ids.filter(ids => writtenAt(ids) > clock.wall() - KEEP_IDS_MS)
    if (recent.length > 0) {
      const name = `${file.name}.sent`
      this.#sent.push({ name, until: clock.now() + KEEP_IDS_MS })
      // On a full disk, this write may fail. The object is then removed anyway, which makes room.
      await writeIds(folder, name, recent).catch(error => report.notWritten(error))
    }
    try {
      await file.remove()
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') report.notRemoved(file.name, error)
    }
  }

  /** Resolves when nothing is being written. Stored events stay for the next run, and still count toward limits. */
  async close(): Promise<void> {
    this.#hasEnded = true
    this.#cancelTimer?.()
    this.#cancelKnown?.()
    await Promise.allSettled(this.#appends)
    const { bytes } = this
    this.#options.state.count(() => bytes, true)
  }

  *#all(): Generator<ObjectFile> {
    yield* this.#open.values()
    yield* this.#closed
    yield* this.#sending
  }
}

const sizeOf = ({ end }: ObjectFile) => Math.ceil(end / BLOCK) * BLOCK
