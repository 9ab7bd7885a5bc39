import type { Logger } from 'pino'
import type { Codec } from '../../core/codec.js'
import type { ComponentMetrics, Output, Source } from '../../core/component.js'
import { Ack, type AckStatus, type OnSettled } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import { newReading } from '../../core/event/event-id.js'
import type { Origin } from '../../core/event/origin.js'
import { SentOffsets } from '../../core/event/sent-offsets.js'
import type { Fact } from '../../core/fact.js'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { type Linked, LinkedList } from '../../lib/linked-list.js'
import { type Clock, type Deferred, deferred, systemClock } from '../../lib/time.js'
import { counted, short } from '../../lib/units.js'
import type { ComponentCounters } from './counters.js'
import type { FanOut } from './fan-out.js'
import { SourceLag } from './source-lag.js'

/**
 * Maximum memory of all unacknowledged events, in bytes. This memory is divided equally among the sources, so that a
 * blocked source does not slow the others. The share of a source has a minimum and a maximum.
 */
const UNACKNOWLEDGED_BYTES = 96 * 1024 * 1024
const LARGEST_SHARE = 32 * 1024 * 1024
const LEAST_SHARE = 2 * 1024 * 1024

export function shareOf(sources: number): number {
  return Math.max(LEAST_SHARE, Math.min(LARGEST_SHARE, UNACKNOWLEDGED_BYTES / sources))
}

/** The ack of a batch, with data about the batch until it is settled. */
class Open extends Ack implements Linked<Open> {
  readonly settled: OnSettled
  /** The number of this batch. Batches are numbered from 1. */
  number = 0
  /** Memory that counts toward the budget, in bytes. */
  held = 0
  events = 0
  bytes = 0
  origin: Origin | undefined
  /** The nearest earlier and the nearest later batch of the same origin that is unsettled or was given back. */
  earlier: Open | undefined
  later: Open | undefined
  /**
   * Number of events in settled batches after this batch. If this batch is given back, its source also reads those
   * events again.
   */
  behind = 0
  isGivenBack = false
  /** The batch as it was sent. Set only if its source cannot read it again. */
  kept: Kept | undefined
  previous: Open | undefined
  next: Open | undefined
  list: unknown

  constructor(
    settled: OnSettled,
    onSettled: (open: Open, status: AckStatus, before?: number) => void,
    onShrink: (open: Open, bytes: number) => void,
  ) {
    super(
      (status, before) => onSettled(this, status, before),
      bytes => onShrink(this, bytes),
    )
    this.settled = settled
  }
}

/** A sent batch with a copy of its flags, because the flags of the sent batch change. */
interface Kept {
  readonly frame: Frame
  readonly sentOffsets: SentOffsets | undefined
  readonly places: SentOffsets | undefined
  readonly origin: Origin
  readonly receivedAt: number
  readonly release: (() => void) | undefined
}

/**
 * The output of a source. Limits memory downstream: unsettled batches may hold at most `maxBytes`, plus one batch.
 * While downstream components are replaced, a running source keeps its output: first `hold`, then `attach`. If events
 * of a `once` source are given back between these calls, the output itself resends them.
 */
export class SourceOutput implements Output {
  readonly #counters: ComponentCounters
  readonly #keeps: boolean
  readonly #redelivers: boolean
  #maxBytes: number
  #fanOut: FanOut
  #held = 0
  readonly #open = new LinkedList<Open>()
  /** The last batch of each origin that has unsettled batches. */
  readonly #newest = new Map<Origin, Open>()
  #waiting: (() => void)[] = []
  /** Number of batches for which `send` waits, because downstream or the budget has no room. */
  blocked = 0
  /** The promise for which `send` waits while downstream components are replaced. Undefined at other times. */
  #gate: Deferred | undefined
  /** Whether the source is being replaced. If so, its successor reads the given-back events again. */
  #replaced = false
  /** Whether events were given back to the source during the current or the last replacement. */
  #gaveBack = false
  /** Whether `attach` resends all kept batches. Otherwise it resends only those that were given back. */
  #resendsAll = false
  #isOver = false
  #hasSent = false
  /** Reading id of batches whose source does not set `readFrom`. `#sentBytes`: bytes sent so far. */
  readonly #reading = newReading()
  #sentBytes = 0
  readonly #log: Pick<Logger, 'warn'>
  readonly #clock: Clock
  readonly lag: SourceLag
  /** How many batches were created. */
  #created = 0

  constructor(
    fanOut: FanOut,
    counters: ComponentCounters,
    maxBytes: number,
    log: Pick<Logger, 'warn'>,
    { once, redelivers }: Pick<Source, 'once' | 'redelivers'> = {},
    clock: Clock = systemClock,
  ) {
    this.#fanOut = fanOut
    this.#counters = counters
    this.#maxBytes = maxBytes
    this.#log = log
    this.#clock = clock
    this.lag = new SourceLag(clock)
    this.#keeps = once === true
    this.#redelivers = redelivers === true
    counters.gauge(
      'sluice_source_unacknowledged_bytes',
      'Memory held by unacknowledged events, in bytes.',
      () => this.#held,
    )
  }

  get unsettled(): number {
    return this.#open.size
  }

  ack(onSettled: OnSettled): Open {
    const open = new Open(
      onSettled,
      (open, status, before) => this.#settled(open, status, before),
      (open, bytes) => this.#shrunk(open, bytes),
    )
    open.number = ++this.#created
    this.#open.add(open)
    return open
  }

  #settled(open: Open, status: AckStatus, before?: number): void {
    // The batch was given up earlier. Its holder settles it only now, which has no effect.
    if (!this.#open.has(open)) return
    // The batch was given back during a replacement. `attach` sends it to the new components.
    if (status === 'errored' && open.kept && this.#gate) return
    this.#open.delete(open)
    open.kept?.release?.()
    if (status !== 'errored') {
      this.#passed(open)
      this.lag.settled((this.#open.first?.number ?? this.#created + 1) - 1)
    } else {
      this.lag.gaveBack()
      if (this.#gate || this.#replaced) this.#gotBack(open)
    }
    this.#release(open.held)
    open.settled(status, before)
  }

  /** The source has nothing left to read, or had nothing left at the monotonic time `at`. */
  caughtUp(at = this.#clock.now()): void {
    this.lag.caughtUp(at, this.#created, this.#open.size)
  }

  #gotBack(open: Open): void {
    this.#gaveBack = true
    open.isGivenBack = true
    this.#counters.gotBack(open.events, open.bytes, true)
    this.#counters.toRepeat += open.behind
  }

  #passed(open: Open): void {
    const { origin, earlier, later, events, behind } = open
    if (earlier?.isGivenBack) this.#counters.toRepeat += events + behind
    else if (earlier) earlier.behind += events + behind
    if (earlier) earlier.later = later
    if (later) later.earlier = earlier
    if (origin && this.#newest.get(origin) === open) {
      if (earlier) this.#newest.set(origin, earlier)
      else this.#newest.delete(origin)
    }
    open.earlier = open.later = undefined
  }

  /** Adds a batch after the other batches of its origin. */
  #follow(open: Open, origin: Origin): void {
    open.origin = origin
    open.earlier = this.#newest.get(origin)
    if (open.earlier) open.earlier.later = open
    this.#newest.set(origin, open)
  }

  #shrunk(open: Open, bytes: number): void {
    // A kept batch holds its chunk until the batch is settled, so no memory is freed.
    if (open.kept || !this.#open.has(open)) return
    open.held -= bytes
    this.#release(bytes)
  }

  #release(bytes: number): void {
    this.#held -= bytes
    if (this.#waiting.length === 0 || this.#held >= this.#maxBytes) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const go of waiting) go()
  }

  async send(batch: EventBatch): Promise<void> {
    // Sending may be paused again before this function continues.
    while (this.#gate) await this.resumed()
    const open = batch.ack as Open
    // If the batch was given up, its source knows that. Nobody else holds the batch, so this releases its memory.
    if (this.#isOver || !this.#open.has(open)) {
      open.settle('errored')
      return
    }
    batch.renew()
    const began = this.#clock.now()
    this.lag.mark(batch)
    const { length, bytes } = batch
    const readFrom = batch.readFrom ?? { reading: this.#reading, at: this.#sentBytes }
    batch.sentOffsets = new SentOffsets(batch.starts[0]!, readFrom, readFrom.lines)
    this.#sentBytes += batch.span
    const undecoded = batch.scan()
    if (undecoded > 0) this.#notDecoded(batch, undecoded)
    this.#hasSent = true
    open.held = batch.held
    this.#held += open.held
    open.events = length
    open.bytes = bytes
    this.#counters.read(length, bytes, !this.#keeps)
    if (this.#keeps) open.kept = keep(batch)
    else if (!this.#redelivers) this.#follow(open, batch.origin)
    const room = this.#fanOut.write(batch)
    this.blocked++
    if (room) await room
    while (this.#held >= this.#maxBytes) await new Promise<void>(resolve => this.#waiting.push(resolve))
    this.blocked--
    this.lag.sent(began)
  }

  /** Counts and reports undecodable events. If the `decode` option is wrong, the first batch already shows this. */
  #notDecoded({ origin, length }: EventBatch, undecoded: number): void {
    undecodedCounter(this.#counters, origin.codec)!.value += undecoded
    if (this.#hasSent || undecoded < length) return
    const { name, expects } = origin.codec.definition
    const lines = length === 1 ? 'the first line is not' : `not one of the first ${length} lines is`
    const text = `${lines} ${expects}: kept as text, with .message as their only field. Correct the option decode`
    this.#log.warn({ code: 'SLUICE_NOTHING_DECODED', decode: name, path: origin.path }, text)
  }

  /** Notes that another source will replace this source. */
  replace(): void {
    this.#replaced = true
  }

  get isHeld(): boolean {
    return this.#gate !== undefined
  }

  /** Resolves when sending is not paused. */
  async resumed(): Promise<void> {
    while (this.#gate) await this.#gate.promise
  }

  hold(): void {
    if (this.#gate) return
    this.#gaveBack = false
    this.#resendsAll = false
    this.#gate = deferred()
  }

  /**
   * Gives up all unsettled batches while sending is paused, even batches that other components still hold. `attach`
   * resends kept batches; other batches go back to their source. Without `isAborted`, does this only for a source that
   * sends in order and has already got events back. Later events must not overtake those events.
   */
  giveUp(isAborted = true): void {
    this.#resendsAll = isAborted
    if (this.#keeps || !(isAborted || (this.repeats && !this.#redelivers))) return
    this.lag.gaveBack()
    for (const open of [...this.#open]) {
      this.#open.delete(open)
      this.#gotBack(open)
      this.#release(open.held)
      open.settled('errored')
    }
  }

  /** Resumes sending, to `fanOut`. First resends kept batches, in order. */
  attach(fanOut: FanOut, maxBytes: number): void {
    this.#fanOut = fanOut
    this.#maxBytes = maxBytes
    // Events that were given back are read again from now on.
    this.#newest.clear()
    for (const open of [...this.#open]) {
      const { settled, held, events, bytes } = open
      if (!open.kept || !(open.isErrored || this.#resendsAll)) continue
      this.#open.delete(open)
      const kept = sharedWith(open, open.kept)
      const ack = this.ack(settled)
      Object.assign(ack, { kept, held, events, bytes })
      this.#counters.gotBack(events, bytes, false)
      const batch = new EventBatch(columnsOf(kept.frame), kept.origin, kept.receivedAt, ack)
      batch.sentOffsets = kept.sentOffsets
      batch.places = kept.places
      batch.scan()
      void fanOut.write(batch)
    }
    const gate = this.#gate
    this.#gate = undefined
    gate?.resolve()
  }

  /** Whether downstream components, or their successors, will get events that they have already received. */
  get repeats(): boolean {
    if (this.#gaveBack) return true
    for (const open of this.#open) if (open.isErrored) return true
    return false
  }

  /** Notes that the source has ended. If a batch that waited for a replacement continues later, it is given back. */
  end(): void {
    this.#isOver = true
  }

  /** Releases all waiting senders, since the run is over. */
  close(): void {
    const waiting = this.#waiting
    this.#waiting = []
    this.#held = Number.NEGATIVE_INFINITY
    for (const go of waiting) go()
    const gate = this.#gate
    // The components after this output have ended, and no others were attached.
    if (gate) this.#isOver = true
    this.#gate = undefined
    gate?.resolve()
  }
}

/** A counter of the lines that `codec` cannot decode; undefined if `codec` can decode every line. */
export function undecodedCounter(metrics: ComponentMetrics, codec: Codec): { value: number } | undefined {
  const { name, form, undecodedHelp } = codec.definition
  if (form === 'message') return undefined
  const problem: Fact['problem'] = (lines, { id, received }) => {
    const what = `${id}: ${short(lines)} of its ${counted(received, 'line')} could not be read as ${name}`
    const todo = 'They are kept as text: keys and conditions find only their field .message. Correct the option decode.'
    return lines > 0 && lines * 2 >= received && { gravity: 'undecoded', what, todo }
  }
  return metrics.counter(`sluice_not_${name}_lines_total`, undecodedHelp, {}, { problem })
}

/** The batch's columns. Copies only the flags, since a batch never changes its starts and ends. */
function columnsOf({ chunk, length, starts, ends, flags, bytes, isRun }: Frame): Frame {
  return { chunk, length, starts, ends, flags: flags.slice(0, length), bytes, isRun }
}

/** Shares a kept batch's frame with a second ack. The chunk is released when the holders of both acks have settled. */
function sharedWith(open: Open, kept: Kept): Kept {
  if (open.isHeldBy(0)) return kept
  let holders = 2
  const release = () => {
    if (--holders === 0) kept.release?.()
  }
  open.release = release
  return { ...kept, release }
}

/** Keeps the batch's chunk until the batch is settled. */
function keep(batch: EventBatch): Kept {
  const { origin, receivedAt, ack, sentOffsets, places } = batch
  const { release } = ack
  ack.release = undefined
  return { frame: columnsOf(batch), sentOffsets, places, origin, receivedAt, release }
}
