import type { ComponentMetrics } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { measureWork, type TimerClock } from '../../lib/time.js'
import { counted } from '../../lib/units.js'
import { type Amount, add, sum } from './counters.js'
import { atOneTime } from './steady-clock.js'
import type { Waiting, Work } from './work.js'

/** Limits of one source's waiting events. The processor is asked about further events when there is room again. */
export const MOST_EVENTS = 10_000
export const MOST_WAITING_BYTES = 4 * 1024 * 1024
/**
 * Limits of all waiting events together. A source's budget (source-output.ts) is much smaller, so these limits matter
 * only for events that have no budget.
 */
const MOST_EVENTS_IN_ALL = 1_000_000
const MOST_BYTES_IN_ALL = 128 * 1024 * 1024
/**
 * The pause between two rounds lasts at least ROUND_MS milliseconds, and at least ROUND_SHARE times as long as the last
 * round.
 */
const ROUND_MS = 5
const ROUND_SHARE = 10
/**
 * Tolerance for rounding errors of times, in milliseconds. Events whose due times differ by less than this are due
 * together, in order of arrival.
 */
const SAME_MS = 0.001

/** Events that waited in a stage that has ended. */
export interface WaitedEvents {
  readonly batch: EventBatch
  /** Milliseconds since the predecessor first asked about these events; undefined if it never asked. */
  readonly keptMs: number | undefined
  /** When to ask about these events again, by the clock of processors. */
  readonly dueAt: number
}

/** Waiting events by processor id. */
export type WaitingBatches = ReadonlyMap<string, readonly WaitedEvents[]>

/** The waiting events of one source, in order of arrival. */
interface Line {
  readonly kept: Waiting[]
  readonly amount: Amount
  /** Batches about which the processor was not asked yet. */
  readonly behind: EventBatch[]
}

export interface WaitingStage {
  readonly clock: TimerClock
  readonly metrics: Pick<ComponentMetrics, 'took' | 'fact' | 'gauge'>
  readonly readsAgain: (source: string) => boolean
  /** Whether a batch can be decided now. When this changes, `advance` is called. */
  readonly mayAsk: () => boolean
  /** Asks the processor. When it has decided, `decided` is called. */
  readonly ask: (waiting: Waiting) => void
  readonly onRound: () => void
}

/**
 * Keeps the events for which a processor decided LATER, and asks the processor again when these events are due. Asks
 * about the events of a source in order of arrival: first about due events, then about an arriving batch. Events of one
 * source never wait for events of another.
 */
export class WaitingRoom {
  readonly #stage: WaitingStage
  readonly #lines = new Map<string, Line>()
  readonly #waiting: Amount = { events: 0, bytes: 0 }
  /** Events given back to their sources or passed to the successor. They stay in flight until they arrive again. */
  readonly #givenBack: Amount = { events: 0, bytes: 0 }
  /** Sources whose events were given back. To keep the order, later batches of these sources are also given back. */
  readonly #gaveBackTo = new Set<string>()
  #isEnding = false
  /**
   * Whether the successor takes and decides a source's waiting events. If so, arriving events of the source also wait.
   */
  #passesOn: (source: string) => boolean = () => false
  #isOver = false
  #round = 0
  #notBefore = Number.NEGATIVE_INFINITY
  #cancelTimer: (() => void) | undefined

  constructor(stage: WaitingStage) {
    this.#stage = stage
    const { metrics } = stage
    const waiting = 'Events that the component delays until there is room for them.'
    const shown = (events = 0) => events > 0 && `${counted(events, 'event')} ${events === 1 ? 'waits' : 'wait'}`
    metrics.fact({ name: 'sluice_component_waiting_events', help: waiting, read: () => this.#waiting.events, shown })
    const full = 'Sources paused because too many of their events are waiting.'
    const read = () => [...this.#lines.values()].filter(isFull).length
    const todo =
      'Events that the source reads next are delayed, also events of other buckets. If the source keeps sending more than the limit, it never catches up: raise the limit, shorten max_delay or the wait of over_limit, or replace on_backlog: pace with time_field.'
    metrics.fact({
      name: 'sluice_component_waiting_full_sources',
      help: full,
      read,
      problem: (sources, { id }) => {
        const what = `${id} has paused ${counted(sources, 'source')}: too many of its events wait for room`
        return sources > 0 && { gravity: 'limits', what, todo }
      },
    })
  }

  get isEmpty(): boolean {
    return this.#lines.size === 0
  }

  /** Whether the stage must stop taking batches. */
  get isFull(): boolean {
    return this.#waiting.events >= MOST_EVENTS_IN_ALL || this.#waiting.bytes >= MOST_BYTES_IN_ALL
  }

  /** Whether all events that still wait are for the successor. */
  get isDone(): boolean {
    return [...this.#lines.keys()].every(this.#passesOn)
  }

  /** Waiting events and bytes. Includes events that the processor is being asked about, and events given back. */
  get amount(): Amount {
    return sum(this.#waiting, this.#givenBack)
  }

  /** All waiting batches: source by source, in order of arrival. */
  *batches(): Iterable<EventBatch> {
    for (const { kept, behind } of this.#lines.values()) {
      for (const { batch } of kept) yield batch
      yield* behind
    }
  }

  /** Takes a batch if it must wait for earlier batches of its source. If not, returns false. */
  takes(batch: EventBatch): boolean {
    const { source } = batch.origin
    if (this.#gaveBackTo.has(source)) {
      this.#giveBack(batch)
      return true
    }
    const line = this.#lines.get(source)
    if (!line) return false
    const now = this.#stage.clock.now()
    const isDue = line.behind.length > 0 || isFull(line) || line.kept.some(({ dueAt }) => dueAt <= now + SAME_MS)
    if (!isDue && !this.#passesOn(source)) return false
    this.#queue(batch)
    this.advance()
    return true
  }

  #queue(batch: EventBatch): void {
    this.#lineOf(batch).behind.push(batch)
    add(this.#waiting, batch.length, batch.bytes)
  }

  /**
   * Whether the processor may decide LATER. While the stage ends, this is allowed only if a successor takes the events
   * or their source reads them again.
   */
  mayWait({ origin: { source } }: EventBatch): boolean {
    return !this.#isEnding || this.#passesOn(source) || this.#stage.readsAgain(source)
  }

  /** Called after the processor decided about a batch. Keeps the events with LATER, or gives them back. */
  decided({ batch, asked, since, askedSize, kept = [], laterMs }: Work): void {
    const ends = this.#isOver || (this.#isEnding && !this.#passesOn(batch.origin.source))
    const left = ends ? [] : kept
    if (ends) for (const batch of kept) this.#giveBack(batch)
    const dueAt = this.#stage.clock.now() + (Number.isFinite(laterMs) ? laterMs : ROUND_MS)
    const line = this.#lineOf(batch)
    let at = line.kept.length
    if (asked) {
      at = line.kept.indexOf(asked)
      line.kept.splice(at, 1)
      for (const amount of [line.amount, this.#waiting]) add(amount, -askedSize.events, -askedSize.bytes)
    }
    for (const batch of left) this.#put(line, batch, since, dueAt, at++)
    if (line.kept.length + line.behind.length === 0) this.#lines.delete(batch.origin.source)
    if (!asked && left.length > 0) this.#setTimer()
  }

  #put(line: Line, batch: EventBatch, since: number, dueAt: number, at = line.kept.length, isInherited = false): void {
    line.kept.splice(at, 0, { batch, since, dueAt, isAsked: false, round: this.#round, isInherited })
    for (const amount of [line.amount, this.#waiting]) add(amount, batch.length, batch.bytes)
  }

  #lineOf({ origin: { source } }: EventBatch): Line {
    let line = this.#lines.get(source)
    if (!line) this.#lines.set(source, (line = { kept: [], amount: { events: 0, bytes: 0 }, behind: [] }))
    return line
  }

  /** Asks about all due events while there is room. */
  advance(): void {
    const { clock, mayAsk, ask, onRound } = this.#stage
    const began = clock.now()
    if (this.isEmpty || this.#isOver) return
    let hasRoom = true
    if (began >= this.#notBefore || this.#isEnding) {
      // Prevents another round, since `ask` may call `advance`.
      this.#notBefore = Number.POSITIVE_INFINITY
      this.#round++
      const workMs = measureWork(clock)
      atOneTime(clock, () => {
        const at = clock.now()
        hasRoom = mayAsk()
        for (let next = hasRoom && this.#next(at); next; next = hasRoom && this.#next(at)) {
          // The batch's chunk may hold events that are no longer needed. Compacting can then release the chunk.
          next.batch.compact()
          ask(next)
          hasRoom = mayAsk()
        }
      })
      this.#notBefore = clock.now() + Math.max(ROUND_MS, ROUND_SHARE * workMs())
      onRound()
    }
    // Without room, no timer is needed, since the stage calls `advance` later.
    if (hasRoom) this.#setTimer()
  }

  /**
   * Returns the next due batch and marks it as `isAsked`; undefined if no batch is due. The processor may decide LATER
   * again with the same due time, so each batch is returned at most once per round.
   */
  #next(now: number): Waiting | undefined {
    const round = this.#round
    for (const [source, line] of this.#lines) {
      if (this.#passesOn(source)) continue
      let next = line.kept.find(one => !one.isAsked && one.round < round && one.dueAt <= now + SAME_MS)
      if (!next && line.behind.length > 0 && !isFull(line)) {
        const batch = line.behind.shift()!
        next = { batch, since: now, dueAt: now, isAsked: true, round, isInherited: false }
        line.kept.push(next)
        add(line.amount, batch.length, batch.bytes)
      }
      if (!next) continue
      next.isAsked = true
      // Moves the source to the end of the map, so that the next due batch comes from another source if possible.
      this.#lines.delete(source)
      this.#lines.set(source, line)
      return next
    }
    return undefined
  }

  #setTimer(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    const at = Math.max(this.#dueAt(), this.#notBefore)
    if (this.#isOver || at === Number.POSITIVE_INFINITY) return
    const { clock } = this.#stage
    this.#cancelTimer = clock.after(Math.max(0, at - clock.now()), () => this.advance())
  }

  /** When to ask the processor again; Infinity if no events wait. */
  #dueAt(): number {
    let due = Number.POSITIVE_INFINITY
    for (const [source, line] of this.#lines) {
      if (this.#passesOn(source)) continue
      // Batches in `behind` are due now. Perhaps the last round ended early because there was no room.
      if (line.behind.length > 0 && !isFull(line)) return Number.NEGATIVE_INFINITY
      for (const { isAsked, dueAt } of line.kept) if (!isAsked) due = Math.min(due, dueAt)
    }
    return due
  }

  #giveBack(batch: EventBatch): void {
    this.#gaveBackTo.add(batch.origin.source)
    add(this.#givenBack, batch.length, batch.bytes)
    batch.giveBack()
  }

  /** Gives back all batches of the matching sources in order, except batches that the processor is deciding about. */
  #giveBackAll(isMeant: (source: string) => boolean): void {
    for (const [source, line] of [...this.#lines]) {
      if (!isMeant(source)) continue
      const isAsked = ({ isAsked }: Waiting) => isAsked
      const batches = [...line.kept.filter(one => !isAsked(one)).map(({ batch }) => batch), ...line.behind]
      const asked = line.kept.filter(isAsked)
      this.#lines.delete(source)
      if (asked.length > 0) {
        const amount = asked.reduce((all, { batch }) => add(all, batch.length, batch.bytes), { events: 0, bytes: 0 })
        this.#lines.set(source, { kept: asked, amount, behind: [] })
      }
      for (const batch of batches) {
        add(this.#waiting, -batch.length, -batch.bytes)
        this.#giveBack(batch)
      }
    }
  }

  /** Keeps events that waited in the predecessor. Call it before other events arrive. */
  inherit({ batch, keptMs, dueAt }: WaitedEvents): void {
    const { clock, metrics } = this.#stage
    metrics.took(batch.length, batch.bytes)
    if (keptMs === undefined) this.#queue(batch)
    else this.#put(this.#lineOf(batch), batch, clock.now() - keptMs, dueAt, undefined, true)
    if (this.#isEnding) this.end(this.#passesOn)
    else this.#setTimer()
  }

  /**
   * Ends the waiting. The successor takes the waiting events of the sources that `passesOn` accepts. Events of any
   * other source are given back if the source can read them again. All remaining events are decided now.
   */
  end(passesOn: (source: string) => boolean): void {
    this.#isEnding = true
    this.#passesOn = passesOn
    const { readsAgain, onRound } = this.#stage
    this.#giveBackAll(source => readsAgain(source) && !passesOn(source))
    for (const [source, { kept }] of this.#lines)
      if (!passesOn(source)) for (const waiting of kept) waiting.dueAt = Number.NEGATIVE_INFINITY
    this.advance()
    onRound()
  }

  /** Takes out all events for the successor, source by source, in order of arrival. */
  takeLeft(): WaitedEvents[] {
    const now = this.#stage.clock.now()
    const left: WaitedEvents[] = []
    for (const [source, { kept, behind }] of [...this.#lines]) {
      if (!this.#passesOn(source)) continue
      for (const { batch, since, dueAt } of kept) left.push({ batch, keptMs: now - since, dueAt })
      for (const batch of behind) left.push({ batch, keptMs: undefined, dueAt: now })
      this.#lines.delete(source)
    }
    for (const { batch } of left) {
      add(this.#waiting, -batch.length, -batch.bytes)
      add(this.#givenBack, batch.length, batch.bytes)
    }
    return left
  }

  destroy(): void {
    this.#isOver = true
    this.#cancelTimer?.()
    this.#giveBackAll(() => true)
  }
}

function isFull({ amount: { events, bytes } }: Line): boolean {
  return events >= MOST_EVENTS || bytes >= MOST_WAITING_BYTES
}
