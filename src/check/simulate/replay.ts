import { Ack } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import { type FieldPath, fieldPathText } from '../../core/event/field-path.js'
import { FieldReader } from '../../core/event/field-reader.js'
import type { Origin } from '../../core/event/origin.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { AutoTime } from '../../throttle/auto-time.js'
import { NamedTime, type TimeReader } from '../../throttle/event-time.js'
import { Before, type Way } from './before.js'
import { TimeSlots } from './slots.js'
import type { FieldContext } from './trials.js'

/** If a field is missing: how many events are searched for field names, and how many names are shown. */
const SAMPLED_EVENTS = 1000
const MOST_FIELDS = 30
const NO_SLOT = -1

/** Gets the events that reach the throttle. */
export interface Visitor {
  /** Called before the events of a batch. */
  enter(batch: EventBatch): void
  /** `now`: the time of event `i`; `slot`: -1 if no event had a time yet; `n`: number of events read before. */
  visit(batch: EventBatch, i: number, now: number, slot: number, n: number): void
}

/** Takes the lines of inputs. */
export interface Frames {
  /** Starts an origin, whose events have an order of their own. `receivedAt` gives the year if the lines have none. */
  enter(origin: Omit<Origin, 'wanted'>, receivedAt: number): void
  /** The bytes of a frame are only valid during the call. */
  replay(frame: Frame): void
}

/** Replays events through the components before a throttle, each event at its own time. */
export class Replay<V extends Visitor> implements Frames {
  /** Number of events read. */
  read = 0
  /** Events that reached the throttle. One that reaches it on several paths counts several times. */
  events = 0
  bytes = 0
  /** Lines that the decoding of their source could not read. */
  undecoded = 0
  /** Events that reached the throttle without a time of their own. */
  timeless = 0
  /** Events that are earlier than the previous one, and the largest difference. */
  backwards = 0
  furthestBackMs = 0
  readonly slots = new TimeSlots()
  /** Field names of the first events. */
  readonly fields = new Set<string>()
  readonly before: Before
  readonly visitor: V
  readonly #wanted = new WantedNames()
  readonly #timePath: FieldPath | 'auto' | undefined
  readonly #time: TimeReader | undefined
  /** Slot of the timestamp, which events get from their origin if the line has none. */
  readonly #timestamp: number
  readonly #ack = new Ack(() => {})
  #origin: Origin | undefined
  #receivedAt = 0
  /** The time of the previous event, and whether it was read from an event. */
  #now = 0
  #hasTime = false

  /** `time`: the field with the time; undefined: events count when they were received. */
  constructor(
    time: FieldPath | 'auto' | undefined,
    way: Way,
    createVisitor: (context: FieldContext, slots: TimeSlots) => V,
  ) {
    const context = { field: (path: FieldPath) => new FieldReader(path, this.#wanted) }
    this.#timePath = time
    if (time) this.#time = time === 'auto' ? new AutoTime(context) : new NamedTime(context.field(time))
    this.#timestamp = this.#wanted.slot('timestamp')
    this.visitor = createVisitor(context, this.slots)
    this.before = new Before(way, context)
  }

  /** Whether at least one event had a time. */
  get hasTime(): boolean {
    return this.#hasTime
  }

  enter(origin: Omit<Origin, 'wanted'>, receivedAt: number): void {
    this.#origin = { ...origin, wanted: this.#wanted }
    this.#receivedAt = receivedAt
  }

  /** Visits the events of a frame. */
  replay(frame: Frame): void {
    const origin = this.#origin!
    const batch = new EventBatch(frame, origin, this.#receivedAt, this.#ack)
    this.undecoded += batch.scan()
    this.visitor.enter(batch)
    this.before.enter(batch)
    const always = this.before.always(origin.source)
    for (let i = 0; i < batch.length; i++) {
      const time = this.#timeOf(batch, i)
      const hasTime = !Number.isNaN(time)
      const back = this.#hasTime && time < this.#now ? this.#now - time : 0
      if (hasTime) this.#now = time
      const arrivals = always || this.before.arrivals(origin.source, batch, i, this.#now)
      if (arrivals > 0) {
        if (hasTime) this.#hasTime = true
        else this.timeless++
        if (back > 0) {
          this.backwards++
          this.furthestBackMs = Math.max(this.furthestBackMs, back)
        }
        if (this.events < SAMPLED_EVENTS) this.#sample(batch, i)
        const slot = this.#hasTime ? this.slots.slot(this.#now) : NO_SLOT
        for (let n = 0; n < arrivals; n++) this.visitor.visit(batch, i, this.#now, slot, this.read)
        this.events += arrivals
        this.bytes += arrivals * batch.size(i)
      }
      this.read++
    }
  }

  /** The time of event `i`; NaN if it has none. A line without a time gets the time at which it was read. */
  #timeOf(batch: EventBatch, i: number): number {
    if (!this.#time) return batch.receivedAt
    const isNamed = typeof this.#timePath === 'object' && this.#timePath.text === '.timestamp'
    return isNamed && !batch.hasOwn(i, this.#timestamp) ? Number.NaN : this.#time.of(batch, i)
  }

  #sample(batch: EventBatch, i: number): void {
    if (this.fields.size >= MOST_FIELDS) return
    for (const name of Object.keys(batch.fields(i))) {
      if (name !== 'timestamp' || batch.hasOwn(i, this.#timestamp)) this.fields.add(fieldPathText(name))
    }
  }
}
