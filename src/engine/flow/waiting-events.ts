import type { EventBatch } from '../../core/event/batch.js'
import { type Amount, add } from './counters.js'

/** Bounds of what is kept of one source. What it sends beyond them is asked about when there is room again. */
const MOST_EVENTS = 10_000
const MOST_BYTES = 4 * 1024 * 1024
/**
 * Bounds of all that waits. The budget of a source (source-output.ts) stops it long before; these are for events that
 * count in no budget.
 */
const MOST_EVENTS_IN_ALL = 1_000_000
const MOST_BYTES_IN_ALL = 128 * 1024 * 1024

/** Events that are LATER. */
export interface Waiting {
  readonly batch: EventBatch
  /** When they were asked about first, and when to ask again, by the clock of the stage. */
  readonly since: number
  dueAt: number
  /** Whether the processor is being asked about it. */
  isAsked: boolean
  /** The round in which the processor was asked about it last. */
  readonly round: number
  /** Whether it waited in the predecessor of the stage, and the processor has not been asked about it here. */
  readonly isInherited: boolean
}

/** What waited in a stage that has ended. */
export interface Left {
  readonly batch: EventBatch
  /** How long ago the predecessor was asked about it first; undefined: it was not. */
  readonly keptMs: number | undefined
  /** When to ask about it again, by the clock of processors. */
  readonly dueAt: number
}

/** What waits of one source, in the order of arrival. */
interface Line {
  readonly kept: Waiting[]
  /** Events and bytes of `kept`. */
  readonly amount: Amount
  /** Batches that have not been asked about. */
  readonly behind: EventBatch[]
}

/**
 * The events of a stage whose decision waits. Invariants: those of a source are asked about in the order of their
 * arrival, and before a batch that arrives when they are due. No source waits for another one.
 */
export class WaitingEvents {
  /** Everything that waits. */
  readonly amount: Amount = { events: 0, bytes: 0 }
  readonly #lines = new Map<string, Line>()
  #round = 0
  #rests: (source: string) => boolean = () => false

  get isEmpty(): boolean {
    return this.#lines.size === 0
  }

  /** Whether no more batches should be taken. */
  get isFull(): boolean {
    return this.amount.events >= MOST_EVENTS_IN_ALL || this.amount.bytes >= MOST_BYTES_IN_ALL
  }

  /** Number of sources of which no more is kept. */
  get fullSources(): number {
    let full = 0
    for (const line of this.#lines.values()) if (isFull(line)) full++
    return full
  }

  /** Whether all that waits is of sources that rest. */
  get isResting(): boolean {
    for (const source of this.#lines.keys()) if (!this.#rests(source)) return false
    return true
  }

  /** Lets what waits of certain sources rest, now and from now on: it is not asked about, and their batches queue. */
  rest(isMeant: (source: string) => boolean): void {
    this.#rests = isMeant
  }

  /** Whether a batch of this source has to wait behind others. */
  queues(source: string, now: number): boolean {
    const line = this.#lines.get(source)
    if (line !== undefined && this.#rests(source)) return true
    return line !== undefined && (line.behind.length > 0 || isFull(line) || line.kept.some(({ dueAt }) => dueAt <= now))
  }

  /** Adds a batch behind the others of its source. */
  queue(batch: EventBatch): void {
    this.#lineOf(batch).behind.push(batch)
    add(this.amount, batch.length, batch.bytes)
  }

  beginRound(): void {
    this.#round++
  }

  /**
   * The next batch to ask about, which is then `isAsked`; undefined if none is due. Each comes once in a round, since
   * what is still LATER may be due at the same moment.
   */
  next(now: number): Waiting | undefined {
    const current = this.#round
    for (const [source, line] of this.#lines) {
      if (this.#rests(source)) continue
      let next = line.kept.find(({ isAsked, dueAt, round }) => !isAsked && round < current && dueAt <= now)
      if (!next && line.behind.length > 0 && !isFull(line)) {
        next = {
          batch: line.behind.shift()!,
          since: now,
          dueAt: now,
          isAsked: true,
          round: current,
          isInherited: false,
        }
        line.kept.push(next)
        add(line.amount, next.batch.length, next.batch.bytes)
      }
      if (!next) continue
      next.isAsked = true
      // The others come first the next time.
      this.#lines.delete(source)
      this.#lines.set(source, line)
      return next
    }
    return undefined
  }

  /** Keeps the events of a batch that has just arrived. */
  keep(batches: readonly EventBatch[], since: number, dueAt: number): void {
    for (const batch of batches) this.#put(this.#lineOf(batch), batch, since, dueAt)
  }

  /** Replaces a batch that was asked about by what is left of it. `events` and `bytes`: its size when it was asked. */
  answered(asked: Waiting, { events, bytes }: Amount, left: readonly EventBatch[], dueAt: number): void {
    const line = this.#lineOf(asked.batch)
    const index = line.kept.indexOf(asked)
    line.kept.splice(index, 1)
    add(line.amount, -events, -bytes)
    add(this.amount, -events, -bytes)
    const { since } = asked
    for (const [n, batch] of left.entries()) this.#put(line, batch, since, dueAt, index + n)
    if (line.kept.length + line.behind.length === 0) this.#lines.delete(asked.batch.origin.source)
  }

  /** Keeps what waited in the predecessor, behind the others of its source. */
  inherit({ batch, keptMs, dueAt }: Left, now: number): void {
    if (keptMs === undefined) this.queue(batch)
    else this.#put(this.#lineOf(batch), batch, now - keptMs, dueAt, undefined, true)
  }

  #put(
    line: Line,
    batch: EventBatch,
    since: number,
    dueAt: number,
    index = line.kept.length,
    isInherited = false,
  ): void {
    const { length, bytes } = batch
    line.kept.splice(index, 0, { batch, since, dueAt, isAsked: false, round: this.#round, isInherited })
    add(line.amount, length, bytes)
    add(this.amount, length, bytes)
  }

  #lineOf({ origin: { source } }: EventBatch): Line {
    let line = this.#lines.get(source)
    if (!line) {
      line = { kept: [], amount: { events: 0, bytes: 0 }, behind: [] }
      this.#lines.set(source, line)
    }
    return line
  }

  /** Everything that waits, source by source in the order of arrival. */
  *batches(): Iterable<EventBatch> {
    for (const { kept, behind } of this.#lines.values()) {
      for (const { batch } of kept) yield batch
      yield* behind
    }
  }

  /** When to ask again; Infinity: nothing waits. */
  get dueAt(): number {
    let due = Number.POSITIVE_INFINITY
    for (const [source, line] of this.#lines) {
      if (this.#rests(source)) continue
      // A round ends before its time when there is no room for more.
      if (line.behind.length > 0 && !isFull(line)) return Number.NEGATIVE_INFINITY
      for (const { isAsked, dueAt } of line.kept) if (!isAsked) due = Math.min(due, dueAt)
    }
    return due
  }

  /** Makes everything due that does not rest. */
  hurry(): void {
    for (const [source, { kept }] of this.#lines)
      if (!this.#rests(source)) for (const waiting of kept) waiting.dueAt = Number.NEGATIVE_INFINITY
  }

  /** Takes out everything that rests, source by source in order. */
  takeResting(now: number): Left[] {
    const taken: Left[] = []
    for (const [source, { kept, behind }] of [...this.#lines]) {
      if (!this.#rests(source)) continue
      for (const { batch, since, dueAt } of kept) taken.push({ batch, keptMs: now - since, dueAt })
      for (const batch of behind) taken.push({ batch, keptMs: undefined, dueAt: now })
      this.#lines.delete(source)
    }
    for (const { batch } of taken) add(this.amount, -batch.length, -batch.bytes)
    return taken
  }

  /** Takes out everything of certain sources that is not being asked about, in order. */
  takeAll(isMeant: (source: string) => boolean): EventBatch[] {
    const taken: EventBatch[] = []
    for (const [source, line] of [...this.#lines]) {
      if (!isMeant(source)) continue
      const asked = line.kept.filter(({ isAsked }) => isAsked)
      taken.push(...line.kept.flatMap(({ isAsked, batch }) => (isAsked ? [] : [batch])), ...line.behind)
      this.#lines.delete(source)
      if (asked.length > 0) this.#lines.set(source, { kept: asked, amount: sizeOf(asked), behind: [] })
    }
    for (const { length, bytes } of taken) add(this.amount, -length, -bytes)
    return taken
  }
}

function sizeOf(all: readonly Waiting[]): Amount {
  const amount = { events: 0, bytes: 0 }
  for (const { batch } of all) add(amount, batch.length, batch.bytes)
  return amount
}

function isFull({ amount: { events, bytes } }: Line): boolean {
  return events >= MOST_EVENTS || bytes >= MOST_BYTES
}
