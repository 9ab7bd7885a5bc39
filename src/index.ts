import {
  getDefaultHighWaterMark,
  type Readable,
  type Transform,
  type TransformCallback,
  type Writable,
} from 'node:stream'
import type { z } from 'zod'
import { inEventTime } from './components/processors/throttle/in-event-time.js'
import { streamThrottleOptions, throttleOptions } from './components/processors/throttle/options.js'
import { throttlePlan } from './components/processors/throttle/plan.js'
import { ThrottleProcessor } from './components/processors/throttle/throttle-processor.js'
import { JSON_OBJECTS } from './core/codecs/json.js'
import type { ComponentMetrics, Processor, ProcessorContext } from './core/component.js'
import { Ack } from './core/event/ack.js'
import { EventBatch } from './core/event/batch.js'
import { EventEditor } from './core/event/event-editor.js'
import { type FieldPath, valueAt } from './core/event/field-path.js'
import { FieldReader, type ValueKind } from './core/event/field-reader.js'
import type { Origin } from './core/event/origin.js'
import { DISCARDED, type Plan } from './core/processor.js'
import { silentLog } from './core/silent-log.js'
import { OptionsError, parseOptions } from './engine/config/parse-options.js'
import { Stage } from './engine/flow/stage.js'
import { WantedNames } from './lib/formats/json-scan.js'
import { after, type Clock, systemClock } from './lib/time.js'
import { packageVersion } from './lib/version.js'

/** Sluice as a library: its throttle in streams of your own. */

export { type Fault, OptionsError } from './engine/config/parse-options.js'
export type { Clock } from './lib/time.js'

/** The version of the package, as in `0.1.0`. */
export const version: string = packageVersion()

/** The options of the `throttle` processor, with the names and values that they have in a configuration. */
export type ThrottleOptions = z.input<typeof streamThrottleOptions>

export interface ThrottleSurroundings {
  /** Stands in for the clocks of the system: monotonic, and since the epoch. */
  readonly clock?: Clock
  /** Events that may wait at each side of the stream; Node's default when it is not given. */
  readonly highWaterMark?: number
}

/** What became of the events so far: received = passed + excluded + discarded + fail_open + late. */
export interface ThrottleStats {
  readonly received: number
  readonly passed: number
  /** Passed because of `exclude`. */
  readonly excluded: number
  readonly discarded: number
  /** Passed without being counted, since `max_keys` others were in use. */
  readonly fail_open: number
  /** Passed without being counted, since they were later than `allowed_lateness`. */
  readonly late: number
  /** Buckets in memory, without the default one. */
  readonly buckets: number
}

/** An object-mode stream that passes at most `limit` events of each bucket in each window. */
export interface Throttle extends Transform {
  /**
   * The events that do not pass, in order. From the first look at it on they are kept for its reader, and a reader that
   * is slow slows the throttle down; until then they are dropped, and counted.
   */
  readonly discarded: Readable
  readonly stats: ThrottleStats
}

/**
 * A throttle as a stream. An event is an object, or a line: a string or Buffer, whose fields are read when it holds a
 * JSON object, and which has the field `message` otherwise. What passes is the very chunk that was written. Throws
 * OptionsError.
 */
export function createThrottle(options: ThrottleOptions, surroundings: ThrottleSurroundings = {}): Throttle {
  const parsed = parseOptions(streamThrottleOptions, options)
  if ('faults' in parsed) throw new OptionsError('createThrottle', parsed.faults)
  const counts = new Counts()
  const wanted = new WantedNames()
  const given = surroundings.clock
  const clock = given ? { now: () => given.now(), wall: () => given.wall(), after } : systemClock
  const all = throttleOptions.parse(options)
  const current: Current = { event: undefined }
  const context: ProcessorContext = {
    id: 'throttle',
    log: silentLog,
    clock,
    metrics: counts,
    field: path => new ObjectReader(path, wanted, current),
    editor: () => new EventEditor(wanted),
  }
  const processor = new ThrottleProcessor(all, context, { inEventTime })
  return new EventThrottle(processor, throttlePlan(all), context, counts, wanted, current, surroundings.highWaterMark)
}

const NO_LINE = Buffer.alloc(0)
const nothing = () => {}

/** Nobody waits for an acknowledgement: what becomes of the one event of a batch is known when the stage hands it on. */
class NoAck extends Ack {
  constructor() {
    super(nothing)
  }
  override fork(): void {}
  override settle(): void {}
}

/** Counts for `stats`. */
class Counts implements ComponentMetrics {
  received = 0
  discardedEvents = 0
  late = 0
  buckets = () => 0
  /** What the throttle counts by decision. */
  readonly #decisions = new Map<string | undefined, { value: number }>()

  took(events: number): void {
    this.received += events
  }

  discarded(reason: string, events: number): void {
    this.discardedEvents += events
    if (reason === 'late') this.late += events
  }

  counter(_name: string, _help: string, labels: Record<string, string> = {}): { value: number } {
    const counter = this.#decisions.get(labels.decision) ?? { value: 0 }
    this.#decisions.set(labels.decision, counter)
    return counter
  }

  gauge(name: string, _help: string, read: () => number): void {
    if (name === 'sluice_throttle_buckets') this.buckets = read
  }

  sent(): void {}
  consumed(): void {}
  emitted(): void {}
  failed(): void {}
  gauges(): void {}
  counters(): void {}
  histogram = () => ({ observe: nothing })

  get stats(): ThrottleStats {
    const of = (decision: string) => this.#decisions.get(decision)?.value ?? 0
    return {
      received: this.received,
      passed: of('passed'),
      excluded: of('excluded'),
      discarded: this.discardedEvents,
      fail_open: of('fail_open'),
      late: of('late') - this.late,
      buckets: this.buckets(),
    }
  }
}

/** The event that is being decided. */
interface Current {
  event: unknown
}

/** Reads a field of the current event, if that is an object; else of its line. */
class ObjectReader extends FieldReader {
  readonly #segments: FieldPath['segments']
  readonly #current: Current

  constructor(path: FieldPath, wanted: WantedNames, current: Current) {
    super(path, wanted)
    this.#segments = path.segments
    this.#current = current
  }

  override load(batch: EventBatch, i: number): ValueKind {
    const { event } = this.#current
    return isLine(event) ? super.load(batch, i) : this.setValue(valueAt(event, this.#segments))
  }
}

const isLine = (event: unknown) => typeof event === 'string' || event instanceof Uint8Array

/** The stage of the daemon, with events that come one at a time. */
class EventThrottle extends Stage implements Throttle {
  readonly #counts: Counts
  readonly #origin: Origin
  /** A batch of one event, in the place of an object. */
  readonly #one: EventBatch
  readonly #current: Current

  constructor(
    processor: Processor,
    plan: Plan,
    context: ProcessorContext,
    counts: Counts,
    wanted: WantedNames,
    current: Current,
    highWaterMark = getDefaultHighWaterMark(true),
  ) {
    const origin: Origin = { source: '', host: '', codec: JSON_OBJECTS, wanted }
    super(processor, plan, { ...context, origin, onError: 'pass', isStrict: true, highWaterMark })
    this.#counts = counts
    this.#current = current
    this.#origin = origin
    this.#one = this.#batch(NO_LINE)
  }

  get discarded(): Readable {
    const output = this.outputs.get(DISCARDED)!
    output.connected = true
    return output
  }

  get stats(): ThrottleStats {
    return this.#counts.stats
  }

  /** A batch of one line. */
  #batch(line: Buffer): EventBatch {
    const frame = {
      chunk: line,
      length: 1,
      starts: new Int32Array(1),
      ends: Int32Array.of(line.length),
      flags: new Uint8Array(1),
      bytes: line.length,
    }
    return new EventBatch(frame, this.#origin, 0, new NoAck())
  }

  override _transform(event: unknown, encoding: string, done: TransformCallback): void {
    let batch: EventBatch
    try {
      batch = this.#batchOf(event)
    } catch (error) {
      done(error as Error)
      return
    }
    this.#current.event = event
    super._transform(batch, encoding, done)
  }

  #batchOf(event: unknown): EventBatch {
    if (typeof event === 'string') return this.#batch(Buffer.from(event))
    if (typeof event !== 'object' || event === null) {
      throw new TypeError(`an event must be an object, a string or a Buffer, not a ${typeof event}`)
    }
    if (event instanceof Uint8Array) return this.#batch(Buffer.from(event.buffer, event.byteOffset, event.byteLength))
    return this.#one
  }

  protected override hand(_batch: EventBatch, output?: Writable): void {
    if (output) output.write(this.#current.event)
    else this.push(this.#current.event)
  }
}
