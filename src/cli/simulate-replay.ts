import { Ack } from '../core/ack.js'
import { EventBatch } from '../core/batch.js'
import type { FieldPath } from '../core/field-path.js'
import { FieldReader, NUMBER, STRING } from '../core/field-reader.js'
import { OBJECT } from '../core/flags.js'
import type { Origin } from '../core/origin.js'
import { parseIsoTime } from '../lib/iso-time.js'
import { WantedNames } from '../lib/json-scan.js'
import { type Frame, LineSplitter } from '../lib/line-splitter.js'
import { deciderOptions, type ThrottleOptions } from '../processors/throttle.js'
import { Decider, type Decision, EXCLUDED as EXEMPT, FAIL_OPEN } from '../throttle/decider.js'
import { DISCARD, FULL, PASS } from '../throttle/keyed-limiter.js'
import { DEFAULT_BUCKET, DISCARDED, EXCLUDED, KeyTally, type Outcome, PASSED, TimeTally } from './simulate-tally.js'

/** One line is held in memory, so a line has an end; longer ones count as several. */
const MAX_LINE_BYTES = 64 * 1024 * 1024
/** What a clock can show. */
const LARGEST_MS = 8.64e15

const OUTCOMES: Record<Decision, Outcome> = {
  [PASS]: PASSED,
  [FAIL_OPEN]: PASSED,
  [EXEMPT]: EXCLUDED,
  [DISCARD]: DISCARDED,
  [FULL]: DISCARDED,
}
const NAMES = ['pass', 'discard', 'excluded'] as const

/** Replays lines through a throttle, each event at its own time. */
export class Replay {
  events = 0
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
  readonly keys: KeyTally
  readonly times = new TimeTally()
  readonly #decider: Decider
  readonly #origin: Origin
  readonly #time: FieldReader
  readonly #key: FieldReader | undefined
  readonly #wantsDecisions: boolean
  readonly #ack = new Ack(() => {})
  /** The time of the event before, and whether that was read from one. */
  #now = 0
  #hasTime = false

  constructor(
    options: ThrottleOptions,
    time: FieldPath,
    origin: { id: string; host: string },
    wantsDecisions: boolean,
  ) {
    const wanted = new WantedNames()
    this.#time = new FieldReader(time, wanted)
    const compiled = deciderOptions(options, { field: path => new FieldReader(path, wanted) }, 0)
    this.#decider = new Decider(compiled)
    this.#key = compiled.keyField
    this.#origin = { source: origin.id, host: origin.host, decode: 'json', wanted }
    this.#wantsDecisions = wantsDecisions
    this.keys = new KeyTally(options.window, options.window_mode === 'aligned')
  }

  /** A splitter for one input. */
  splitter(): LineSplitter {
    return new LineSplitter(MAX_LINE_BYTES)
  }

  /** Decides the events of a frame; the decisions as JSON lines, when those are wanted. */
  replay(frame: Frame | undefined): string {
    if (!frame) return ''
    const batch = new EventBatch(frame, this.#origin, 0, this.#ack)
    this.bytes += frame.bytes
    let decisions = ''
    for (let i = 0; i < batch.length; i++) {
      this.#moveTo(batch, i)
      const now = this.#now
      const decider = this.#decider
      decider.limiter.advance(now)
      const decision = decider.decideOne(batch, i, now)
      const id = decider.byDefault ? DEFAULT_BUCKET : this.keys.id(batch, i, this.#key)
      if (decision === FAIL_OPEN) this.failedOpen++
      else if (decision === FULL) this.refused++
      const outcome = OUTCOMES[decision]
      this.outcomes[outcome]++
      this.keys.add(id, outcome, now)
      if (this.#hasTime) this.times.add(now, outcome)
      if (this.#wantsDecisions) {
        const bucket = id === DEFAULT_BUCKET ? 'null' : JSON.stringify(this.#key!.text())
        decisions += `{"n":${this.events},"decision":"${NAMES[outcome]}","bucket":${bucket}}\n`
      }
      this.events++
    }
    return decisions
  }

  /** Moves the time to that of event `i`, where it has one. */
  #moveTo(batch: EventBatch, i: number): void {
    const isObject = (batch.look(i) & OBJECT) !== 0
    const time = isObject ? this.#timeOf(batch, i) : Number.NaN
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

  /** Milliseconds since the epoch; NaN where there is no time. */
  #timeOf(batch: EventBatch, i: number): number {
    const field = this.#time
    const kind = field.load(batch, i)
    if (kind === NUMBER) {
      const ms = field.number()
      return Math.abs(ms) <= LARGEST_MS ? ms : Number.NaN
    }
    if (kind !== STRING) return Number.NaN
    if (field.plain) return parseIsoTime(field.bytes, field.start, field.end)
    const text = Buffer.from(field.text())
    return parseIsoTime(text, 0, text.length)
  }
}
