import type { Logger } from 'pino'
import { errorCode } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { DeliveryOptions } from '../../core/options/delivery-options.js'
import { Backoff, type Random } from '../../lib/backoff.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import { freeChunk, takeChunk } from '../../lib/lines/chunk-pool.js'
import { after, type Clock, sleep } from '../../lib/time.js'
import { BatchQueue } from '../batch-queue.js'
import { type Amount, add, sum } from '../counters.js'
import type { DiskAllowance } from '../disk-allowance.js'
import { BatchDecoder, encodeBatch } from './batch-record.js'
import { type Downstream, Feeder } from './feeder.js'
import type { BufferFolder } from './files.js'
import { HEAD_SIZE } from './frame.js'
import { RecordQueue } from './record-queue.js'
import { ATTEMPTS, type Recovered, recover, setAside } from './recovery.js'
import { type BufferMetrics, BufferReport } from './report.js'
import { ForeignSegment, type ReaderReport } from './segment-reader.js'
import type { Outgoing } from './segment-writer.js'
import { Settlement } from './settlement.js'
import { SharedRoom } from './shared-room.js'

/**
 * Between the pipeline and the delivery of a destination: batches go to the disk, are acknowledged when they are safe
 * there, and are delivered from there, in order. Invariants:
 * - A batch is acknowledged `delivered` only when its record is synced. Batches that come during a sync share the next.
 * - A record is given out once in a run, and again in the next run unless it was settled and the ledger knows.
 * - What cannot be written waits, and so do the sources. What cannot be read is skipped, counted and logged.
 *   Neither ends the daemon.
 * - Memory is bounded by bytes, whatever the disk holds.
 */

/** Bytes of records in memory. */
export interface BufferMemory {
  /** That wait to be written; beyond it the sources wait. */
  readonly waiting: number
  /** That were written, and are kept to be given out without being read; and those that were given out. */
  readonly ahead: number
  /** That were given out and are not settled; beyond it nothing is given out. */
  readonly held: number
}

const MIB = 1024 * 1024
const MEMORY: BufferMemory = { waiting: 4 * MIB, ahead: 8 * MIB, held: 8 * MIB }
const MOST_HELD = 32 * MIB

/** Enough for all requests that may be under way, and the next one: large ones may not wait for each other. */
export function memoryFor({ batch, max_in_flight }: Pick<DeliveryOptions, 'batch' | 'max_in_flight'>): BufferMemory {
  const held = 1.25 * batch.max_bytes * (max_in_flight + 1)
  return { ...MEMORY, held: Math.min(MOST_HELD, Math.max(MEMORY.held, held)) }
}
const LARGEST_SEGMENT = 64 * MIB
/** A full buffer has at least so many segments, so that room is made in steps. */
const SEGMENTS = 8
const RETRY_FIRST_MS = 200
const RETRY_MAX_MS = 5000
/** The process is short of something, or lacks a permission, for the moment; the file is as good as before. */
const PASSING = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EINTR', 'EACCES', 'EPERM'])

export interface DiskBufferContext {
  readonly folder: BufferFolder
  readonly log: Logger
  readonly clock: Clock
  readonly random: Random
  readonly wanted: WantedNames
  readonly maxBytes: number
  readonly whenFull: 'block' | 'drop_newest'
  /** Shared with others, beside `maxBytes`. */
  readonly disk?: DiskAllowance | undefined
  /** Of the destination. */
  readonly counters: BufferMetrics & {
    arrived(events: number, bytes: number): void
    took(events: number, bytes: number): void
  }
  /** Usually left out. */
  readonly memory?: BufferMemory | undefined
  /** Timers; lib/time.ts when left out. */
  readonly after?: typeof after | undefined
}

interface Waiting extends Outgoing {
  readonly batch: EventBatch
}

export class DiskBuffer extends BatchQueue {
  readonly #context: DiskBufferContext
  readonly #report: BufferReport
  readonly #queue: RecordQueue
  readonly #settlement: Settlement
  readonly #decoder: BatchDecoder
  readonly #after: typeof after
  readonly #memory: BufferMemory
  readonly #shared: SharedRoom
  #feeder: Feeder | undefined
  #feeding: Promise<void> | undefined
  /** To be written, in order. */
  readonly #waiting: Waiting[] = []
  #waitingBytes = 0
  /** What found no room. */
  #blocked: Waiting | undefined
  #flushing: Promise<void> | undefined
  readonly #ended = new AbortController()
  #cancelRest: (() => void) | undefined
  /** Nothing more is given out. */
  #rests = false

  /** Puts in order what the folder holds. Rejects when the folder, its ledger or one of its files cannot be opened. */
  static async open(context: DiskBufferContext): Promise<DiskBuffer> {
    return new DiskBuffer(context, await recover(context.folder, context.log))
  }

  private constructor(context: DiskBufferContext, found: Recovered) {
    super(false)
    const { folder, log, clock, counters, maxBytes, wanted } = context
    this.#context = context
    this.#after = context.after ?? after
    this.#memory = context.memory ?? MEMORY
    this.#decoder = new BatchDecoder(wanted)
    this.#report = new BufferReport({ log, clock, folder, metrics: counters })
    const segmentBytes = Math.min(LARGEST_SEGMENT, Math.ceil(maxBytes / SEGMENTS))
    this.#queue = new RecordQueue(folder, found, segmentBytes, this.#readerReport())
    this.#settlement = new Settlement(found, {
      folder,
      log,
      segments: this.#queue.segments,
      after: this.#after,
      end: () => this.#queue.end,
      current: () => this.#queue.current,
      letGo: segment => this.#queue.letGo(segment),
      freed: () => this.advance(),
    })
    const { events, bytes } = this.#queue.amount
    counters.arrived(events, bytes)
    counters.took(events, bytes)
    this.#report.found(found, { events, bytes })
    counters.gauge('sluice_buffer_events', 'Events in the buffer that were not delivered.', () => this.#kept().events)
    counters.gauge('sluice_buffer_bytes', 'Bytes that the buffer takes on the disk.', () => this.#queue.segments.bytes)
    counters.gauge('sluice_buffer_max_bytes', 'Bytes that the buffer may take on the disk.', () => maxBytes)
    const unsaved = 'Whether what was delivered from the buffer could not be saved the last time that it was tried.'
    counters.gauge('sluice_buffer_progress_unsaved', unsaved, () => (this.#settlement.isSaved ? 0 : 1))
    this.#shared = new SharedRoom(context.disk, {
      path: folder.path,
      bytes: () => this.#queue.segments.bytes + this.#waitingBytes,
      release: () => this.#release(),
      freed: () => this.advance(),
      sleep: ms => this.#sleep(ms),
    })
    // There may be files whose events are all settled.
    if (this.#queue.segments.first) this.#settlement.changed()
  }

  /** Begins to give out what there is. */
  connect(downstream: Downstream): void {
    this.#feeder = new Feeder({
      queue: this.#queue,
      settlement: this.#settlement,
      decoder: this.#decoder,
      downstream,
      report: this.#report,
      maxHeld: this.#memory.held,
      settled: () => this.advance(),
    })
    // It may have been given up before what follows was there.
    if (this.isOver || this.#rests) this.#feeder.stop()
    this.#feeding = this.#feeder.run().catch(error => this.#report.broken(error))
  }

  /** What follows has taken events up: they are in its count now. */
  takenUp(events: number, bytes: number): void {
    this.#feeder?.takenUp(events, bytes)
  }

  override inFlight(): Amount {
    const { events, bytes } = this.#queue.amount
    const amount = sum({ events, bytes }, this.givenBack)
    for (const { batch, isSafe } of this.#waiting) if (!isSafe) add(amount, batch.length, batch.bytes)
    if (this.#blocked) add(amount, this.#blocked.events, this.#blocked.bytes)
    return sum(amount, this.#feeder?.queued)
  }

  /** It rightly waits for what is behind it. */
  override get owes(): boolean {
    return !this.isOver && this.#queue.amount.events > 0 && (this.#feeder?.rests ?? false)
  }

  /** Gives out nothing more after `ms`: what is left then is for the next run. */
  restAfter(ms: number): void {
    this.#cancelRest ??= this.#after(ms, () => {
      this.#rests = true
      this.#feeder?.stop()
    })
  }

  /** Resolves when everything is written down, once what follows has ended. Nothing is given out any more. */
  async close(): Promise<void> {
    this.giveUp()
    await this.#flushing
    await this.#feeding
    await this.#queue.close()
    await this.#settlement.close()
    this.#shared.close()
  }

  protected override count(batch: EventBatch): void {
    this.#context.counters.took(batch.length, batch.bytes)
  }

  protected override put(batch: EventBatch): void {
    this.#blocked = this.#encode(batch)
    if (!this.#blocked) this.giveBack(batch)
  }

  #encode(batch: EventBatch): Waiting | undefined {
    try {
      let chunk: Buffer | undefined
      const framed = encodeBatch(batch, HEAD_SIZE, size => {
        chunk = takeChunk(size)
        return chunk
      })
      const letGo = () => freeChunk(chunk!)
      return { batch, framed, events: batch.length, bytes: batch.bytes, isSafe: false, letGo }
    } catch (error) {
      this.#report.notEncoded(error)
      return undefined
    }
  }

  /** Lets the newest batch in where there is room now, and the next one behind it. */
  protected override advance(): void {
    const blocked = this.#blocked
    if (blocked) {
      const { maxBytes, whenFull } = this.#context
      const own = this.#hasRoom(blocked)
      if (own && this.#shared.has(blocked.framed.length)) {
        this.#report.notFull()
        this.#blocked = undefined
        this.#waiting.push(blocked)
        this.#waitingBytes += blocked.framed.length
        this.#flushing ??= this.#flush()
      } else if (whenFull === 'drop_newest') {
        this.#blocked = undefined
        this.#report.full(own ? this.#shared.max : maxBytes, own, blocked)
        blocked.batch.ack.settle('rejected')
      } else this.#report.full(own ? this.#shared.max : maxBytes, own, undefined)
    }
    if (!this.#blocked && this.#waitingBytes < this.#memory.waiting) this.letIn()
    if (this.isEnding && !this.#flushing) {
      this.finish()
      this.#feeder?.end()
    }
  }

  /** Removes the newest segment, too, when all of its events are delivered: others need the room. */
  #release(): void {
    if (this.isOver || this.#flushing || this.#kept().events > 0 || !this.#queue.current) return
    void this.#queue.finish().then(() => this.#settlement.changed())
  }

  /** A batch that is larger than everything has room when it is alone. */
  #hasRoom({ framed }: Waiting): boolean {
    const needed = this.#queue.segments.bytes + this.#waitingBytes + framed.length
    return needed <= this.#context.maxBytes || (this.#waiting.length === 0 && this.#kept().events === 0)
  }

  /** What is safe on the disk and not settled. */
  #kept(): Amount {
    const { end } = this.#queue
    const { mark } = this.#settlement
    return { events: end.event - mark.event, bytes: end.byte - mark.byte }
  }

  /** Writes what waits, group by group, until nothing does. */
  async #flush(): Promise<void> {
    const { clock, random } = this.#context
    const backoff = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, random)
    // A disk that has no room for all of it may have some for a part.
    let most = Number.POSITIVE_INFINITY
    while (this.#waiting.length > 0) {
      const began = clock.now()
      let written = 0
      try {
        const group = this.#waiting.length > most ? this.#waiting.slice(0, most) : this.#waiting
        written = await this.#queue.append(group, () => this.#room())
        this.#report.written((clock.now() - began) / 1000, written === this.#waiting.length)
        backoff.reset()
        most *= 2
      } catch (error) {
        this.#report.notWritten(error)
        most = Math.max(1, Math.min(most, this.#waiting.length) >> 1)
        await this.#sleep(RETRY_FIRST_MS + backoff.next())
        if (this.isOver) break
      }
      this.#wrote(this.#waiting.splice(0, written))
    }
    for (const { batch } of this.#waiting.splice(0)) this.giveBack(batch)
    this.#flushing = undefined
    this.advance()
  }

  #wrote(group: readonly Waiting[]): void {
    for (const { framed } of group) this.#waitingBytes -= framed.length
    this.#settlement.changed()
    this.#feeder?.wake()
    for (const { batch } of group) batch.ack.settle('delivered')
    this.advance()
  }

  /** Bytes of records that may be kept in memory to be given out from there. */
  #room(): number {
    return this.#memory.ahead - this.#queue.memory - (this.#feeder?.held ?? 0)
  }

  protected override abandon(): void {
    this.#cancelRest?.()
    this.#feeder?.stop()
    this.#ended.abort()
    if (this.#blocked) this.giveBack(this.#blocked.batch)
    this.#blocked = undefined
  }

  #readerReport(): ReaderReport {
    const { folder, log, random } = this.#context
    const backoff = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, random)
    return {
      damaged: (segment, offset, bytes) => this.#report.damaged(segment, offset, bytes),
      unreadable: async (segment, error) => {
        await setAside(folder, segment, error, log)
        this.advance()
      },
      failed: async (segment, error, failures) => {
        const code = errorCode(error) ?? ''
        const final = error instanceof ForeignSegment || code === 'ENOENT'
        if (final || (failures >= ATTEMPTS && !PASSING.has(code))) return 'leave_out'
        this.#report.notRead(segment, error)
        if (failures === 1) backoff.reset()
        await this.#sleep(RETRY_FIRST_MS + backoff.next())
        return this.isOver ? 'stop' : 'again'
      },
    }
  }

  /** Resolves after `ms`, or at once when all is over. */
  #sleep(ms: number): Promise<void> {
    return sleep(ms, this.#ended.signal, this.#after)
  }
}
