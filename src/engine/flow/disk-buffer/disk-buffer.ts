import { above0, CHECK_DISK } from '../../../core/fact.js'
import { showStored } from '../almost-full.js'
import type { BufferMemory, DiskBufferContext } from './context.js'
import type { Recovered } from './ledger.js'
// Loads all codecs, since records may name a codec that the configuration no longer uses.
import '../../../core/codecs/list.js'
import { errorCode } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { type DeliveryOptions, mostInFlight } from '../../../core/options/delivery-options.js'
import { Backoff } from '../../../lib/backoff.js'
import { sleep } from '../../../lib/time.js'
import { BatchQueue } from '../batch-queue.js'
import { type Amount, add, sum } from '../counters.js'
import type { FateObserver } from '../fates.js'
import { type ReadProblems, RecordLog } from './log.js'
import { BufferReading, type Downstream } from './reading.js'
import { type Arrival, RecordDivider } from './record.js'
import { recover, setAside } from './recovery.js'
import { BufferReport } from './report.js'
import { unsettled } from './segments.js'
import { Settlement } from './settlement.js'

/**
 * A buffer between the pipeline and a destination's delivery. Writes batches to disk, acknowledges them when they are
 * safe there, and delivers them from disk in order. Invariants:
 * - A batch is acknowledged as `delivered` only after its record is synced. All batches that arrive during a sync share
 *   the next sync.
 * - A record is passed on once per run. It is passed on again in the next run, unless the ledger says that it was
 *   settled.
 * - If a batch cannot be written, the batch and the sources wait. If a record cannot be read, it is skipped, counted
 *   and logged. In both cases the daemon continues.
 * - Memory is limited in bytes, regardless of the size on disk.
 */

const MIB = 1024 * 1024
const MEMORY: BufferMemory = { waiting: 4 * MIB, ahead: 8 * MIB, held: 8 * MIB }
const MOST_HELD = 32 * MIB

/** Memory for all concurrent requests and one more, so large requests need not wait for each other. */
export function memoryFor({ batch, max_in_flight }: Pick<DeliveryOptions, 'batch' | 'max_in_flight'>): BufferMemory {
  const held = 1.25 * batch.max_bytes * (mostInFlight(max_in_flight) + 1)
  return { ...MEMORY, held: Math.min(MOST_HELD, Math.max(MEMORY.held, held)) }
}
const LARGEST_SEGMENT = 64 * MIB
/** A full buffer has at least this many segments, because space is freed only by removing whole segments. */
const SEGMENTS = 8
const RETRY_FIRST_MS = 200
const RETRY_MAX_MS = 5000
/** How often to check whether other users have freed shared space. */
const CHECK_MS = 1000
/** After this many failed attempts, which take about 40 seconds, a file counts as unreadable. */
const MOST_FAILURES = 20
/** Temporary errors: the process lacks a resource or a permission, but the file is intact. */
const PASSING = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EINTR', 'EACCES', 'EPERM'])

export class DiskBuffer extends BatchQueue {
  readonly #context: DiskBufferContext
  readonly #memory: BufferMemory
  readonly #report: BufferReport
  readonly #records: RecordLog
  readonly #settlement: Settlement
  readonly #reading: BufferReading
  #running: Promise<void> | undefined
  readonly #encoding: RecordDivider
  observer: FateObserver | undefined
  /** The batch, or part of a batch, for which there is no room. */
  #blocked: Arrival | undefined
  readonly #waiting: Arrival[] = []
  #waitingBytes = 0
  #flushing: Promise<void> | undefined
  /** Whether a check for free shared space is scheduled. */
  #checking = false
  readonly #ended = new AbortController()
  #cancelRest: (() => void) | undefined

  /** Recovers the folder. Rejects if the folder, its ledger or a segment cannot be opened. */
  static async open(context: DiskBufferContext): Promise<DiskBuffer> {
    return new DiskBuffer(context, await recover(context.folder, context.log))
  }

  private constructor(context: DiskBufferContext, found: Recovered) {
    super(false)
    const { folder, counters, maxBytes, wanted, memory = MEMORY } = context
    this.#context = context
    this.#memory = memory
    this.#report = new BufferReport(context)
    const segmentBytes = Math.min(LARGEST_SEGMENT, Math.ceil(maxBytes / SEGMENTS))
    this.#encoding = new RecordDivider(segmentBytes, context.keepsIds === true)
    this.#records = new RecordLog(folder, found, segmentBytes, this.#readProblems())
    this.#settlement = new Settlement(context, found, this.#records, () => this.advance())
    this.#reading = new BufferReading(this.#records, this.#settlement, this.#report, wanted, memory.held)
    const { events, bytes } = this.#records.amount
    counters.arrived(events, bytes)
    counters.took(events, bytes)
    this.#report.found(found, { events, bytes })
    const { segments } = this.#records
    showStored(
      counters,
      'buffer',
      () => segments.bytes,
      maxBytes,
      () => this.#undelivered(),
    )
    const unsaved = '1 if the last attempt to save the progress of the buffer failed.'
    const todo = `After a restart, the receiver would get these events again. ${CHECK_DISK} (SLUICE_BUFFER_LEDGER_NOT_WRITTEN).`
    const problem = above0('repeated', 'its buffer cannot save which events were delivered', todo)
    const read = () => (this.#settlement.isSaved ? 0 : 1)
    counters.fact({ name: 'sluice_buffer_progress_unsaved', help: unsaved, read, problem })
    context.disk?.count(
      folder.path,
      () => this.#bytes,
      () => this.#release(),
    )
    // If all events of some files are already settled, this call removes these files.
    if (this.#records.segments.first) this.#settlement.changed()
  }

  get stored() {
    const { segments } = this.#records
    return { events: this.#undelivered(), used_bytes: segments.bytes, max_bytes: this.#context.maxBytes }
  }

  /** Starts passing on events. */
  connect(downstream: Downstream): void {
    this.#running = this.#reading.run(downstream).catch(error => this.#report.broken(error))
  }

  /** Reports that the consumer took events from its queue. From now on, the consumer counts these events. */
  takenUp(events: number, bytes: number): void {
    this.#reading.takenUp(events, bytes)
  }

  override inFlight(): Amount {
    const amount = sum(sum(this.#records.amount, this.givenBack), sum(this.#encoding.amount(), this.#reading.queued))
    for (const { events, bytes } of this.#waiting) add(amount, events, bytes)
    if (this.#blocked) add(amount, this.#blocked.events, this.#blocked.bytes)
    return amount
  }

  get isFull(): boolean {
    return this.#blocked !== undefined
  }

  /** Whether the buffer has work that it should do now. Waiting for its consumer does not count. */
  override get owes(): boolean {
    return !this.isOver && this.#records.amount.events > 0 && this.#reading.rests
  }

  /** Stops passing on events after `ms` milliseconds. The remaining events stay on disk for the next run. */
  restAfter(ms: number): void {
    this.#cancelRest ??= this.#context.clock.after(ms, () => this.#reading.stop())
  }

  /** Stops passing on events. Resolves when nothing is being written and the consumer has ended. */
  async close(): Promise<void> {
    this.giveUp()
    await this.#flushing
    await this.#running
    await this.#records.close()
    await this.#settlement.close()
    const bytes = this.#bytes
    // Records that stay on disk still count toward the shared space.
    this.#context.disk?.count(this.#context.folder.path, () => bytes)
  }

  protected override count(batch: EventBatch): void {
    this.#context.counters.took(batch.length, batch.bytes)
  }

  protected override put(batch: EventBatch): void {
    this.#encoding.add(batch)
    this.#next()
  }

  /** Takes the next part of an arrived batch. Does nothing if a part is already waiting for room. */
  #next(): void {
    if (this.#blocked) return
    for (let next = this.#encoding.next(); next; next = this.#encoding.next()) {
      if ('framed' in next) {
        this.#blocked = next
        return
      }
      this.#report.notEncoded(next.error)
      this.giveBack(next.batch)
    }
  }

  /** Admits the waiting batch and then later batches, as far as there is room. */
  protected override advance(): void {
    while (this.#blocked && this.#admits(this.#blocked)) {
      this.#blocked = undefined
      this.#next()
    }
    if (!this.#blocked && this.#waitingBytes < this.#memory.waiting) this.letIn()
    if (this.isEnding && !this.#flushing) {
      this.finish()
      this.#reading.end()
    }
  }

  /**
   * Writes a batch if there is room for it. If not, and if the buffer drops the newest events, discards the batch.
   * Returns false if the batch has to wait.
   */
  #admits(blocked: Arrival): boolean {
    const { maxBytes, whenFull, disk } = this.#context
    const own = this.#hasRoom(blocked)
    if (own && this.#hasSharedRoom(blocked)) {
      this.#report.notFull()
      this.#write(blocked)
      return true
    }
    const drops = whenFull === 'drop_newest'
    this.#report.full(own ? disk?.max : maxBytes, own, drops ? blocked : undefined)
    if (!drops) return false
    const { batch } = blocked
    this.observer?.discarded({ batch, reason: 'buffer_full', events: batch.length })
    blocked.release()
    batch.ack.settle('rejected')
    return true
  }

  #write(arrival: Arrival): void {
    this.#waiting.push(arrival)
    this.#waitingBytes += arrival.framed.length
    this.#flushing ??= this.#flush()
  }

  /** Frees shared space for others. If all events of the buffer are delivered, the newest segment is removed, too. */
  #release(): void {
    if (this.isOver || this.#flushing || this.#kept().events > 0 || !this.#records.current) return
    void this.#records.finish().then(() => this.#settlement.changed())
  }

  /** Size on disk, including records about to be written. */
  get #bytes(): number {
    return this.#records.segments.bytes + this.#waitingBytes
  }

  /** Whether a batch fits. A batch larger than the whole buffer fits if it is alone. */
  #hasRoom({ framed }: Arrival): boolean {
    if (this.#bytes + framed.length <= this.#context.maxBytes) return true
    return this.#waiting.length === 0 && this.#kept().events === 0
  }

  /** Whether the shared space has room. If not, checks again soon, because other users do not report freed space. */
  #hasSharedRoom({ framed }: Arrival): boolean {
    const { disk } = this.#context
    if (!disk || disk.hasRoom(framed.length)) return true
    if (this.#checking) return false
    this.#checking = true
    void this.#sleep(CHECK_MS).then(() => {
      this.#checking = false
      this.advance()
    })
    return false
  }

  /** Events that are safe on disk but not settled. */
  #kept(): Amount {
    return unsettled(this.#settlement.mark, this.#records.end)
  }

  #undelivered(): number {
    const { mark, settledAhead } = this.#settlement
    return unsettled(mark, this.#records.end, settledAhead).events
  }

  async #flush(): Promise<void> {
    const { clock, random } = this.#context
    const backoff = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, random)
    // A disk that has no room for the whole group may have room for a part.
    let most = Number.POSITIVE_INFINITY
    while (this.#waiting.length > 0) {
      const began = clock.now()
      let written: readonly Arrival[] = []
      try {
        written = await this.#records.append(this.#waiting, most, () => this.#room())
        this.#report.written((clock.now() - began) / 1000, this.#waiting.length === 0)
        backoff.reset()
        most *= 2
      } catch (error) {
        this.#report.notWritten(error)
        most = Math.max(1, Math.min(most, this.#waiting.length) >> 1)
        await this.#sleep(RETRY_FIRST_MS + backoff.next())
        if (this.isOver) break
      }
      this.#wrote(written)
    }
    for (const waiting of this.#waiting.splice(0)) this.#unwritten(waiting)
    this.#flushing = undefined
    this.advance()
  }

  #unwritten({ batch, release }: Arrival): void {
    release()
    this.giveBack(batch)
  }

  #wrote(group: readonly Arrival[]): void {
    for (const { framed } of group) this.#waitingBytes -= framed.length
    this.#settlement.changed()
    this.#reading.wake()
    for (const { batch } of group) batch.ack.settle('delivered')
    this.advance()
  }

  /** How many more bytes of records may be kept in memory. */
  #room(): number {
    return this.#memory.ahead - this.#records.memory - this.#reading.held
  }

  protected override abandon(): void {
    this.#cancelRest?.()
    this.#reading.stop()
    this.#ended.abort()
    // If one part of a batch is stored, the others are stored even without room, because sources reread only whole
    // batches.
    let storesRest = true
    for (; this.#blocked; this.#next()) {
      const blocked = this.#blocked
      this.#blocked = undefined
      storesRest &&= !blocked.isFirst
      if (storesRest) this.#write(blocked)
      else this.#unwritten(blocked)
    }
  }

  #readProblems(): ReadProblems {
    const { folder, log, random } = this.#context
    const backoff = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, random)
    return {
      damaged: (segment, offset, bytes) => this.#report.damaged(segment, offset, bytes),
      unreadable: async () => this.advance(),
      failed: async (segment, error, failures) => {
        const code = errorCode(error) ?? ''
        if (code === 'ENOENT' || (failures >= MOST_FAILURES && !PASSING.has(code))) {
          // Records that are written to a renamed file do not count.
          if (segment === this.#records.current) await this.#records.finish()
          if (await setAside(folder, segment, error, log)) return 'leave_out'
        }
        this.#report.notRead(segment, error)
        if (failures === 1) backoff.reset()
        await this.#sleep(RETRY_FIRST_MS + backoff.next())
        return this.isOver ? 'stop' : 'again'
      },
    }
  }

  /** Resolves after `ms` milliseconds, or immediately when the buffer ends. */
  #sleep(ms: number): Promise<void> {
    return sleep(ms, this.#ended.signal, this.#context.clock.after)
  }
}
