import { compileCondition, type EventTest } from '../condition/condition.js'
import { Ack } from '../core/ack.js'
import { EventBatch } from '../core/batch.js'
import type { FieldPath } from '../core/field-path.js'
import { FieldReader } from '../core/field-reader.js'
import { OBJECT } from '../core/flags.js'
import type { Origin } from '../core/origin.js'
import { WantedNames } from '../lib/json-scan.js'
import { type Frame, LineSplitter } from '../lib/line-splitter.js'
import { deciderOptions, type ThrottleOptions } from '../processors/throttle/options.js'
import { Decider, type Decision, EXCLUDED as EXEMPT, FAIL_OPEN, TOO_LATE } from '../throttle/decider.js'
import { EventDecider } from '../throttle/event-decider.js'
import { eventTime } from '../throttle/event-time.js'
import { LATE } from '../throttle/event-windows.js'
import { DISCARD, FULL, PASS } from '../throttle/keyed-limiter.js'
import type { FilterBefore } from './simulate-before.js'
import { DEFAULT_BUCKET, DISCARDED, EXCLUDED, KeyTally, type Outcome, PASSED, TimeTally } from './simulate-tally.js'

/** One line is held in memory, so a line has an end; longer ones count as several. */
const MAX_LINE_BYTES = 64 * 1024 * 1024

const OUTCOMES: Record<Decision, Outcome> = {
  [PASS]: PASSED,
  [FAIL_OPEN]: PASSED,
  [LATE]: PASSED,
  [EXEMPT]: EXCLUDED,
  [DISCARD]: DISCARDED,
  [FULL]: DISCARDED,
  [TOO_LATE]: DISCARDED,
}
/** The time is that of the events. */
const STOPPED_CLOCK = { now: () => 0, wall: () => 0 }
const NAMES = ['pass', 'discard', 'excluded'] as const

/** Replays lines through a throttle, each event at its own time. */
export class Replay {
  events = 0
  /** Events that a filter before the throttle discards; they are counted here only. */
  filtered = 0
  bytes = 0
  readonly outcomes: [passed: number, discarded: number, excluded: number] = [0, 0, 0]
  /** Events without a time of their own, and among them lines that are not JSON objects. */
  timeless = 0
  notJson = 0
  /** Events that are earlier than the one before, and by how much at most. */
  backwards = 0
  furthestBackMs = 0
  /** Events of keys beyond `max_keys`: passed all the same, and discarded. */
  failedOpen = 0
  refused = 0
  /** Events later than is allowed, where the throttle has windows in the time of the events. */
  late = 0
  readonly keys: KeyTally
  readonly times = new TimeTally()
  readonly #decider: Decider | EventDecider
  #origin: Origin
  readonly #time: FieldReader
  readonly #key: FieldReader | undefined
  readonly #wantsDecisions: boolean
  readonly #reaches: readonly EventTest[]
  readonly #ack = new Ack(() => {})
  /** The time of the event before, and whether that was read from one. */
  #now = 0
  #hasTime = false

  constructor(
    options: ThrottleOptions,
    time: FieldPath,
    {
      origin,
      filters,
      wantsDecisions,
    }: {
      readonly origin: { readonly id: string; readonly host: string }
      readonly filters: readonly FilterBefore[]
      readonly wantsDecisions: boolean
    },
  ) {
    const wanted = new WantedNames()
    this.#time = new FieldReader(time, wanted)
    const compiled = deciderOptions(options, { field: path => new FieldReader(path, wanted) }, 0)
    this.#decider = compiled.eventTime
      ? new EventDecider(compiled, compiled.eventTime, STOPPED_CLOCK)
      : new Decider(compiled)
    this.#key = compiled.keyField
    this.#reaches = filters.map(({ condition, keeps }) => {
      const holds = compileCondition(condition, path => new FieldReader(path, wanted))
      return (batch, i) => holds(batch, i) === keeps
    })
    this.#origin = { source: origin.id, host: origin.host, decode: 'json', wanted }
    this.#wantsDecisions = wantsDecisions
    this.keys = new KeyTally(options.window, options.window_mode === 'aligned')
  }

  /** A splitter for one input. */
  splitter(): LineSplitter {
    // Each input comes in an order of its own.
    this.#origin = { ...this.#origin }
    return new LineSplitter(MAX_LINE_BYTES)
  }

  /** Decides the events of a frame; the decisions as JSON lines, when those are wanted. */
  replay(frame: Frame | undefined): string {
    if (!frame) return ''
    const batch = new EventBatch(frame, this.#origin, 0, this.#ack)
    this.bytes += frame.bytes
    let decisions = ''
    const decider = this.#decider
    if (decider instanceof EventDecider) decider.enter(batch, 0, Number.NEGATIVE_INFINITY)
    for (let i = 0; i < batch.length; i++) {
      if (!this.#reaches.every(reaches => reaches(batch, i))) {
        this.filtered++
        continue
      }
      this.#moveTo(batch, i)
      const now = this.#now
      if (decider instanceof Decider) decider.limiter.advance(now)
      const decision = decider.decideOne(batch, i, now)
      const id = decider.byDefault ? DEFAULT_BUCKET : this.keys.id(batch, i, this.#key)
      if (decision === FAIL_OPEN) this.failedOpen++
      else if (decision === FULL) this.refused++
      else if (decision === LATE || decision === TOO_LATE) this.late++
      const outcome = OUTCOMES[decision]
      this.outcomes[outcome]++
      this.keys.add(id, outcome, now)
      if (this.#hasTime) this.times.add(now, outcome)
      if (this.#wantsDecisions) {
        const bucket = id === DEFAULT_BUCKET ? 'null' : JSON.stringify(this.#key!.text())
        decisions += `{"n":${this.events + this.filtered},"decision":"${NAMES[outcome]}","bucket":${bucket}}\n`
      }
      this.events++
    }
    return decisions
  }

  /** Moves the time to that of event `i`, where it has one. */
  #moveTo(batch: EventBatch, i: number): void {
    const isObject = (batch.look(i) & OBJECT) !== 0
    const time = isObject ? eventTime(this.#time, batch, i) : Number.NaN
    if (!isObject) this.notJson++
    if (Number.isNaN(time)) {
      this.timeless++
      return
    }
    if (this.#hasTime && time < this.#now) {
      this.backwards++
      this.furthestBackMs = Math.max(this.furthestBackMs, this.#now - time)
    }
    this.#now = time
    this.#hasTime = true
  }
}
