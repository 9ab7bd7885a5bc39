import { AutoTime } from '../components/throttle/event/auto-time.js'
import { NamedTime, type TimeReader } from '../components/throttle/event/time.js'
import { Ack } from '../core/event/ack.js'
import { EventBatch } from '../core/event/batch.js'
import { type FieldPath, fieldPathText } from '../core/event/field-path.js'
import { FieldReader } from '../core/event/field-reader.js'
import type { Origin } from '../core/event/origin.js'
import { WantedNames } from '../lib/formats/json-scan.js'
import type { Frame } from '../lib/lines/line-splitter.js'
import { Chain } from './chain.js'
import { TimeSlots } from './slots.js'
import { checkRoute, type ThrottlePath } from './subject.js'
import type { FieldContext, SimulatedLag } from './trial.js'

/** For messages about a missing field: how many events are searched for field names, and how many names are shown. */
const SAMPLED_EVENTS = 1000
const MOST_FIELDS = 30
const NO_SLOT = -1

/** Receives the events that reach the throttle. */
export interface Visitor {
  /** Called before the events of a batch. */
  enter(batch: EventBatch): void
  /**
   * `now`: the time of event `i`. `slot`: its time slot; -1: no event had a time yet. `n`: number of events read before
   * it.
   */
  visit(batch: EventBatch, i: number, now: number, slot: number, n: number): void
}

export interface FramesReader {
  /** Called before the other methods. */
  start(signal: AbortSignal): Promise<void>
  stop(): Promise<void>
  /** Sets the origin of the next frames. If the times in the lines have no year, `receivedAt` gives the year. */
  enter(origin: Omit<Origin, 'wanted'>, receivedAt: number): void
  /** The bytes of the frame are valid only until the returned promise resolves. */
  replay(frame: Frame): Promise<void> | void
}

/** Replays events through the components before a throttle, each event at its own time. */
export class Replay<V extends Visitor> implements FramesReader {
  read = 0
  /** Events that reached the throttle. If an event reached it on several paths, the event counts once for each path. */
  events = 0
  bytes = 0
  /** Lines that the codec of their source could not decode. */
  undecoded = 0
  /** Events that reached the throttle without a time of their own. */
  timeless = 0
  /** Number of events with an earlier time than the previous event. `furthestBackMs`: the largest time difference. */
  backwards = 0
  furthestBackMs = 0
  readonly slots = new TimeSlots()
  /** Field names of the first events. */
  readonly fields = new Set<string>()
  /**
   * Number of events that did not reach the throttle on any path. `heldBy`: number of these events, by the last
   * processor that they reached.
   */
  held = 0
  readonly heldBy = new Map<string, number>()
  readonly visitor: V
  hasTime = false
  readonly #route: ThrottlePath
  /** The processors before the throttle, if there are any. */
  readonly #chain: Chain | undefined
  readonly #wanted = new WantedNames()
  readonly #timePath: FieldPath | 'auto' | undefined
  readonly #time: TimeReader | undefined
  /** Slot of the field `timestamp` in `#wanted`. If a line lacks this field, its event gets the time of receipt. */
  readonly #timestamp: number
  readonly #ack = new Ack(() => {})
  #origin: Origin | undefined
  #receivedAt = 0
  /** The time of the previous event. */
  #now = 0

  /**
   * `time`: the field with the event time; undefined: the time of receipt counts. `isBacklog`: for the processors
   * before the throttle, all events come at once; `lag`: after this period.
   */
  constructor(
    time: FieldPath | 'auto' | undefined,
    route: ThrottlePath,
    createVisitor: (context: FieldContext, slots: TimeSlots) => V,
    isBacklog = false,
    lag?: SimulatedLag,
  ) {
    const context = { field: (path: FieldPath) => new FieldReader(path, this.#wanted) }
    this.#timePath = time
    if (time) this.#time = time === 'auto' ? new AutoTime(context) : new NamedTime(context.field(time))
    this.#timestamp = this.#wanted.slot('timestamp')
    this.visitor = createVisitor(context, this.slots)
    checkRoute(route)
    this.#route = route
    if (route.processors.length === 0) return
    this.#chain = new Chain(route, this.#wanted, (batch, i) => this.#timeOf(batch, i), isBacklog, lag)
  }

  enter(origin: Omit<Origin, 'wanted'>, receivedAt: number): void {
    this.#origin = { ...origin, wanted: this.#wanted }
    this.#receivedAt = receivedAt
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#chain?.start(signal)
  }

  async stop(): Promise<void> {
    await this.#chain?.stop()
  }

  /** How many events each processor before the throttle could not process. */
  get failed(): [id: string, events: number][] {
    return this.#chain?.failed ?? []
  }

  replay(frame: Frame): Promise<void> | void {
    const origin = this.#origin!
    const batch = new EventBatch(frame, origin, this.#receivedAt, this.#ack)
    this.undecoded += batch.scan()
    if (this.#chain) return this.#throughChain(batch, this.#chain)
    this.visitor.enter(batch)
    // A throttle may read the output of a source more than once.
    const arrivals = this.#route.readers.get(origin.source)?.length ?? 0
    for (let i = 0; i < batch.length; i++, this.read++) this.#arrive(batch, i, arrivals)
  }

  /** Settling the events does not release their bytes. The frame releases them after this method resolves. */
  async #throughChain(batch: EventBatch, chain: Chain): Promise<void> {
    for (let i = 0; i < batch.length; i++) {
      let arrived = 0
      const event = batch.fork(i, i + 1)
      await chain.follow(batch.origin.source, event, made => {
        this.visitor.enter(made)
        for (let n = 0; n < made.length; n++) this.#arrive(made, n, 1)
        arrived += made.length
      })
      event.ack.settle('delivered')
      if (arrived === 0) {
        this.held++
        this.heldBy.set(chain.last, (this.heldBy.get(chain.last) ?? 0) + 1)
      }
      this.read++
    }
  }

  /** Event `i` reaches the throttle on `arrivals` paths. If the event has a time, `#now` becomes that time. */
  #arrive(batch: EventBatch, i: number, arrivals: number): void {
    const time = this.#timeOf(batch, i)
    const back = this.hasTime && time < this.#now ? this.#now - time : 0
    if (Number.isNaN(time)) this.timeless++
    else {
      this.#now = time
      this.hasTime = true
    }
    if (back > 0) {
      this.backwards++
      this.furthestBackMs = Math.max(this.furthestBackMs, back)
    }
    if (this.events < SAMPLED_EVENTS) this.#sample(batch, i)
    const slot = this.hasTime ? this.slots.slot(this.#now) : NO_SLOT
    for (let n = 0; n < arrivals; n++) this.visitor.visit(batch, i, this.#now, slot, this.read)
    this.events += arrivals
    this.bytes += arrivals * batch.size(i)
  }

  /** The time of event `i`; NaN: the event has no time. A `timestamp` that is only the time of receipt is ignored. */
  #timeOf(batch: EventBatch, i: number): number {
    if (!this.#time) return batch.receivedAt
    const time = this.#time.of(batch, i)
    if (time !== batch.receivedAt || batch.hasOwn(i, this.#timestamp)) return time
    return typeof this.#timePath === 'object' && this.#timePath.text === '.timestamp' ? Number.NaN : time
  }

  #sample(batch: EventBatch, i: number): void {
    if (this.fields.size >= MOST_FIELDS) return
    for (const name of Object.keys(batch.fields(i))) {
      if (name !== 'timestamp' || batch.hasOwn(i, this.#timestamp)) this.fields.add(fieldPathText(name))
    }
  }
}

/** Replays each frame through two routes. */
export class Twice implements FramesReader {
  readonly #both: readonly FramesReader[]

  constructor(one: FramesReader, other: FramesReader) {
    this.#both = [one, other]
  }

  async start(signal: AbortSignal): Promise<void> {
    for (const replay of this.#both) await replay.start(signal)
  }

  async stop(): Promise<void> {
    for (const replay of this.#both) await replay.stop()
  }

  enter(origin: Omit<Origin, 'wanted'>, receivedAt: number): void {
    for (const replay of this.#both) replay.enter(origin, receivedAt)
  }

  async replay(frame: Frame): Promise<void> {
    // The two replays scan for different fields. Each replay marks in `flags` what it has scanned, so each replay needs
    // its own flags.
    for (const replay of this.#both) await replay.replay({ ...frame, flags: frame.flags.slice() })
  }
}
