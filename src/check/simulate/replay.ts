import { Ack } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import { type FieldPath, fieldPathText } from '../../core/event/field-path.js'
import { FieldReader } from '../../core/event/field-reader.js'
import type { Origin } from '../../core/event/origin.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { printableJson } from '../../lib/printable.js'
import { deciderOptions, type ThrottleOptions } from '../../processors/throttle/options.js'
import { BucketKey } from '../../throttle/bucket-key.js'
import {
  Decider,
  type Decision,
  DISCARD,
  EXCLUDED as EXEMPT,
  FAIL_OPEN,
  FULL,
  PASS,
  TOO_LATE,
} from '../../throttle/decider.js'
import { EventDecider, eventTime } from '../../throttle/event-decider.js'
import { LATE } from '../../throttle/event-windows.js'
import { Before, STOPPED_CLOCK, type Way } from './before.js'
import { DEFAULT_BUCKET, DISCARDED, EXCLUDED, KeyTally, type Outcome, PASSED, TimeTally } from './tally.js'

const OUTCOMES: Record<Decision, Outcome> = {
  [PASS]: PASSED,
  [FAIL_OPEN]: PASSED,
  [LATE]: PASSED,
  [EXEMPT]: EXCLUDED,
  [DISCARD]: DISCARDED,
  [FULL]: DISCARDED,
  [TOO_LATE]: DISCARDED,
}
const NAMES = ['pass', 'discard', 'excluded'] as const
/** If a field is missing: how many events are searched for field names, and how many names are shown. */
const SAMPLED_EVENTS = 1000
const MOST_FIELDS = 30

export interface ReplayOptions {
  /** The components before the throttle; undefined if there are none. */
  readonly way?: Way
  readonly wantsDecisions: boolean
}

/** Replays events through a throttle and the components before it, each event at its own time. */
export class Replay {
  /** Number of events read. */
  read = 0
  /** Events that reached the throttle. One that reaches it on several paths counts several times. */
  events = 0
  /** Lines that the decoding of their source could not read. */
  undecoded = 0
  readonly outcomes: [passed: number, discarded: number, excluded: number] = [0, 0, 0]
  /** Events that reached the throttle without a time of their own. */
  timeless = 0
  /** Events that are earlier than the previous one, and the largest difference. */
  backwards = 0
  furthestBackMs = 0
  /** Events of keys beyond `max_keys`: passed uncounted, and discarded. */
  failedOpen = 0
  refused = 0
  /** Events that are later than allowed, if the throttle has windows in event time. */
  late = 0
  readonly keys: KeyTally
  readonly times = new TimeTally()
  /** Field names of the first events. */
  readonly fields = new Set<string>()
  readonly before: Before | undefined
  readonly #decider: Decider | EventDecider
  readonly #wanted = new WantedNames()
  readonly #timePath: FieldPath
  readonly #time: FieldReader
  /** Slot of the timestamp, which events get from their origin if the line has none. */
  readonly #timestamp: number
  readonly #key: BucketKey
  readonly #wantsDecisions: boolean
  readonly #ack = new Ack(() => {})
  #origin: Origin | undefined
  #receivedAt = 0
  /** The time of the previous event, and whether it was read from an event. */
  #now = 0
  #hasTime = false

  constructor(options: ThrottleOptions, time: FieldPath, { way, wantsDecisions }: ReplayOptions) {
    const context = { field: (path: FieldPath) => new FieldReader(path, this.#wanted) }
    this.#timePath = time
    this.#time = context.field(time)
    this.#timestamp = this.#wanted.slot('timestamp')
    const compiled = deciderOptions(options, context, 0)
    this.#decider = compiled.eventTime
      ? new EventDecider(compiled, compiled.eventTime, STOPPED_CLOCK)
      : new Decider(compiled)
    this.#key = new BucketKey(compiled.keyFields)
    this.before = way && new Before(way, context)
    this.#wantsDecisions = wantsDecisions
    const { windowMs, mode } = compiled.limits[0]!
    this.keys = new KeyTally(windowMs, mode === 'aligned')
  }

  /** Whether at least one event had the time and, if the throttle has a key, the key. */
  get isSound(): boolean {
    return this.#hasTime && (!this.#key.hasFields || this.keys.size > 0)
  }

  /** Starts an origin, whose events have an order of their own. `receivedAt` gives the year if the lines have none. */
  enter(origin: Omit<Origin, 'wanted'>, receivedAt = 0): void {
    this.#origin = { ...origin, wanted: this.#wanted }
    this.#receivedAt = receivedAt
  }

  /** Decides the events of a frame. Returns the decisions as JSON lines if they are wanted. */
  replay(frame: Frame | undefined): string {
    if (!frame) return ''
    const origin = this.#origin!
    const batch = new EventBatch(frame, origin, this.#receivedAt, this.#ack)
    this.undecoded += batch.scan()
    let decisions = ''
    const decider = this.#decider
    if (decider instanceof EventDecider) decider.enter(batch, 0, Number.NEGATIVE_INFINITY)
    this.before?.enter(batch)
    for (let i = 0; i < batch.length; i++) {
      const time = this.#timeOf(batch, i)
      const hasTime = !Number.isNaN(time)
      const back = this.#hasTime && time < this.#now ? this.#now - time : 0
      if (hasTime) this.#now = time
      const arrivals = this.before?.arrivals(origin.source, batch, i, this.#now) ?? 1
      if (arrivals > 0) {
        if (hasTime) this.#hasTime = true
        else this.timeless++
        if (back > 0) {
          this.backwards++
          this.furthestBackMs = Math.max(this.furthestBackMs, back)
        }
        if (this.events < SAMPLED_EVENTS) this.#sample(batch, i)
      }
      for (let n = 0; n < arrivals; n++) decisions += this.#decide(batch, i)
      this.read++
    }
    return decisions
  }

  /** The decision on event `i` at the current time. */
  #decide(batch: EventBatch, i: number): string {
    const decider = this.#decider
    const now = this.#now
    if (decider instanceof Decider) decider.limiter.advance(now)
    const decision = decider.decideOne(batch, i, now)
    const id = decider.byDefault ? DEFAULT_BUCKET : this.keys.id(batch, i, this.#key)
    if (decision === FAIL_OPEN) this.failedOpen++
    else if (decision === FULL) this.refused++
    else if (decision === LATE || decision === TOO_LATE) this.late++
    const outcome = OUTCOMES[decision]
    this.events++
    this.outcomes[outcome]++
    this.keys.add(id, outcome, now)
    if (this.#hasTime) this.times.add(now, outcome)
    if (!this.#wantsDecisions) return ''
    const bucket = id === DEFAULT_BUCKET ? 'null' : printableJson(JSON.stringify(this.#key.text()))
    return `{"n":${this.read},"decision":"${NAMES[outcome]}","bucket":${bucket}}\n`
  }

  /** The time of event `i`; NaN if it has none. A line without a time gets the time at which it was read. */
  #timeOf(batch: EventBatch, i: number): number {
    const isOwn = this.#timePath.text !== '.timestamp' || batch.hasOwn(i, this.#timestamp)
    return isOwn ? eventTime(this.#time, batch, i) : Number.NaN
  }

  #sample(batch: EventBatch, i: number): void {
    if (this.fields.size >= MOST_FIELDS) return
    for (const name of Object.keys(batch.fields(i))) {
      if (name !== 'timestamp' || batch.hasOwn(i, this.#timestamp)) this.fields.add(fieldPathText(name))
    }
  }
}
