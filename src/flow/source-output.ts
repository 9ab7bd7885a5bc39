import type { Codec } from '../core/codec.js'
import type { ComponentMetrics, Output } from '../core/component.js'
import { Ack, type AckStatus } from '../core/event/ack.js'
import { EventBatch } from '../core/event/batch.js'
import type { Origin } from '../core/event/origin.js'
import type { Frame } from '../lib/lines/line-splitter.js'
import { type Linked, LinkedList } from '../lib/linked-list.js'
import { add, type ComponentCounters } from './counters.js'
import type { FanOut } from './fan-out.js'

/**
 * What may be under way in all, in bytes of memory. Each source has a share of its own, so that one that is held up
 * leaves the others theirs; the share has a largest and a least size.
 */
const UNACKNOWLEDGED_BYTES = 96 * 1024 * 1024
const LARGEST_SHARE = 32 * 1024 * 1024
const LEAST_SHARE = 2 * 1024 * 1024

/** Bytes that each of so many sources may have under way. */
export function shareOf(sources: number): number {
  return Math.max(LEAST_SHARE, Math.min(LARGEST_SHARE, UNACKNOWLEDGED_BYTES / sources))
}

/** The ack of a batch, and what else is known of it until it is settled. */
class Open extends Ack implements Linked<Open> {
  /** Called when it has settled. */
  readonly settled: (status: AckStatus) => void
  /** Memory that it takes of the budget. */
  held = 0
  events = 0
  bytes = 0
  /** As it was sent, where it cannot be read again. */
  kept: Kept | undefined
  previous: Open | undefined
  next: Open | undefined
  list: unknown

  constructor(
    settled: (status: AckStatus) => void,
    onSettled: (open: Open, status: AckStatus) => void,
    onShrink: (open: Open, bytes: number) => void,
  ) {
    super(
      status => onSettled(this, status),
      bytes => onShrink(this, bytes),
    )
    this.settled = settled
  }
}

/** A batch with columns of its own: those that were sent change on their way. */
interface Kept {
  readonly frame: Frame
  readonly origin: Origin
  readonly receivedAt: number
  readonly letGo: (() => void) | undefined
}

/**
 * Where a source puts its batches. Bounds the memory of everything behind it: what is sent and not settled yet may
 * hold at most `maxBytes`, plus one batch. A source that goes on while the components behind it are replaced keeps its
 * output: `hold`, then `attach`. With `keeps`, what is given back meanwhile is sent again from here, since its source
 * cannot read it again.
 */
export class SourceOutput implements Output {
  readonly #counters: ComponentCounters
  readonly #keeps: boolean
  #maxBytes: number
  #fanOut: FanOut
  #held = 0
  readonly #open = new LinkedList<Open>()
  #waiting: (() => void)[] = []
  /** While the components behind are replaced: nothing is sent before it resolves. */
  #gate: { promise: Promise<void>; open: () => void } | undefined
  /** Whether there were other components behind it before. */
  #moved = false
  /** The source is being replaced: its successor reads again what is given back. */
  #replaced = false
  /** Whether events were given back to the source since the components behind it are being replaced. */
  gaveBack = false

  constructor(fanOut: FanOut, counters: ComponentCounters, maxBytes: number, keeps = false) {
    this.#fanOut = fanOut
    this.#counters = counters
    this.#maxBytes = maxBytes
    this.#keeps = keeps
    counters.gauge('sluice_source_unacknowledged_bytes', 'Memory held by what is not settled yet.', () => this.#held)
  }

  /** Batches that are not settled yet. */
  get unsettled(): number {
    return this.#open.size
  }

  ack(onSettled: (status: AckStatus) => void): Open {
    const open = new Open(
      onSettled,
      (open, status) => this.#settled(open, status),
      (open, bytes) => this.#shrunk(open, bytes),
    )
    this.#open.add(open)
    return open
  }

  #settled(open: Open, status: AckStatus): void {
    // Given up before; whoever held it came to its end only now.
    if (!this.#open.has(open)) return
    // Given back while the next components are made: it is theirs.
    if (status === 'errored' && open.kept && this.#gate) return
    this.#open.delete(open)
    if (status !== 'errored') open.kept?.letGo?.()
    else if (this.#gate || this.#replaced) this.#gotBack(open)
    this.#release(open.held)
    open.settled(status)
  }

  #gotBack({ events, bytes }: Open): void {
    this.gaveBack = true
    add(this.#counters.toRead, events, bytes)
  }

  #shrunk(open: Open, bytes: number): void {
    // What is kept holds its chunk until it is settled.
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
    while (this.#gate) await this.#gate.promise
    const open = batch.ack as Open
    if (!this.#open.has(open)) return
    // Made when the processors may have read something else.
    if (this.#moved) batch = new EventBatch(frameOf(batch), batch.origin, batch.receivedAt, batch.ack)
    const { length, bytes } = batch
    const undecoded = batch.scan()
    if (undecoded > 0) undecodedCounter(this.#counters, batch.origin.codec)!.value += undecoded
    open.held = batch.held
    this.#held += open.held
    open.events = length
    open.bytes = bytes
    this.#counters.read(length, bytes, !this.#keeps)
    if (this.#keeps) open.kept = keep(batch)
    const room = this.#fanOut.write(batch)
    if (room) await room
    while (this.#held >= this.#maxBytes) await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  /** The source ends, and another one takes its place. */
  replace(): void {
    this.#replaced = true
  }

  get isHeld(): boolean {
    return this.#gate !== undefined
  }

  /** From now on nothing is sent. */
  hold(): void {
    if (this.#gate) return
    let open = () => {}
    const promise = new Promise<void>(resolve => {
      open = resolve
    })
    this.#gate = { promise, open }
  }

  /**
   * While nothing is sent: what was sent and is not settled never will be. It is sent again by `attach` where it is
   * kept; elsewhere its source hears that it was given back. Unless `isAborted`, this is so only where events were given
   * back already, since what waits to be sent would overtake them.
   */
  giveUp(isAborted = true): void {
    if (this.#keeps || !(isAborted || this.gaveBack)) return
    for (const open of [...this.#open]) {
      this.#open.delete(open)
      this.#gotBack(open)
      this.#release(open.held)
      open.settled('errored')
    }
  }

  /** Goes on, with what is behind it now. What was kept is sent again first, in order. */
  attach(fanOut: FanOut, maxBytes: number): void {
    this.#fanOut = fanOut
    this.#maxBytes = maxBytes
    this.#moved = true
    for (const open of [...this.#open]) {
      const { kept, settled, held, events, bytes } = open
      if (!kept) continue
      this.#open.delete(open)
      const ack = this.ack(settled)
      Object.assign(ack, { kept, held, events, bytes })
      this.#counters.repeated = true
      const batch = new EventBatch(columnsOf(kept.frame), kept.origin, kept.receivedAt, ack)
      batch.scan()
      void fanOut.write(batch)
    }
    const gate = this.#gate
    this.#gate = undefined
    gate?.open()
  }

  /** Whether components behind it have seen events that they, or their successors, get again. */
  get repeats(): boolean {
    if (this.gaveBack) return true
    for (const { kept } of this.#open) if (kept) return true
    return false
  }

  /** Lets go of everybody who waits: the run is over. */
  close(): void {
    const waiting = this.#waiting
    this.#waiting = []
    this.#held = Number.NEGATIVE_INFINITY
    for (const go of waiting) go()
    const gate = this.#gate
    this.#gate = undefined
    gate?.open()
  }
}

/** Counts the lines that `codec` cannot decode; undefined: it decodes every line. */
export function undecodedCounter(metrics: ComponentMetrics, codec: Codec): { value: number } | undefined {
  const { name, form, undecodedHelp } = codec.definition
  return form === 'message' ? undefined : metrics.counter(`sluice_not_${name}_lines_total`, undecodedHelp)
}

function frameOf({ chunk, length, starts, ends, flags, bytes }: EventBatch): Frame {
  return { chunk, length, starts, ends, flags, bytes }
}

function columnsOf(frame: Frame): Frame {
  const { chunk, length, starts, ends, flags, bytes } = frame
  return {
    chunk,
    length,
    bytes,
    starts: starts.slice(0, length),
    ends: ends.slice(0, length),
    flags: flags.slice(0, length),
  }
}

/** From here on the chunk of the batch is let go of when it is settled, and not before. */
function keep(batch: EventBatch): Kept {
  const { origin, receivedAt, ack } = batch
  const { letGo } = ack
  ack.letGo = undefined
  return { frame: columnsOf(frameOf(batch)), origin, receivedAt, letGo }
}
