import type { EventBucket } from '../../../components/throttle/keyed-processor.js'
import { encodedEvent } from '../../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../core/codecs/json.js'
import type { DeliveryError } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { eventIdBytes } from '../../../core/event/event-id.js'
import { UNROUTED } from '../../../core/processor.js'
import type { ComponentCounters } from '../../../engine/flow/counters.js'
import { PROCESSING_FAILED } from '../../../engine/flow/dispatch.js'
import type { DiscardedEvents, FateObserver } from '../../../engine/flow/fates.js'
import type { Clock } from '../../../lib/time.js'
import { countsNow } from '../history.js'
import { type EventFate, type KeptEvent, KeptEvents, LONGEST_TEXT } from './kept-events.js'
import { PlaceSample } from './place-sample.js'

/** Maximum events to keep per second, for each component and fate. */
const KEPT_PER_SECOND = 100
const DISCARDED_SHARE = 1 / 2
const REJECTED_SHARE = 1 / 8
const PASSED_SHARE = 3 / 8

const WORDS: Readonly<Record<string, string>> = {
  [UNROUTED]: 'No component reads the output that it went to.',
  buffer_full: 'The disk buffer was full, with `when_full: drop_newest`.',
  [PROCESSING_FAILED]: 'The event could not be processed.',
}

/** The events that the page keeps: discarded and rejected events, and a sample of the others. */
export class KeptEvidence {
  readonly discarded: KeptEvents
  readonly rejected: KeptEvents
  readonly passed: KeptEvents
  readonly #clock: Clock

  /** `bytes`: maximum memory of the three kinds together. */
  constructor(bytes: number, clock: Clock) {
    this.#clock = clock
    this.discarded = new KeptEvents(bytes * DISCARDED_SHARE)
    this.rejected = new KeptEvents(bytes * REJECTED_SHARE)
    this.passed = new KeptEvents(bytes * PASSED_SHARE)
  }

  limit(bytes: number): void {
    this.discarded.limit(bytes * DISCARDED_SHARE)
    this.rejected.limit(bytes * REJECTED_SHARE)
    this.passed.limit(bytes * PASSED_SHARE)
  }

  get used(): number {
    return this.discarded.used + this.rejected.used + this.passed.used
  }

  keepOnly(components: ReadonlySet<string>): void {
    for (const kept of [this.discarded, this.rejected, this.passed]) kept.keepOnly(components)
  }

  /**
   * Observes a component. `reasons`: the meaning of each discard reason. `bucketOf`: the bucket of a discarded event.
   */
  of(
    component: string,
    reasons: Readonly<Record<string, string>> = {},
    bucketOf: (batch: EventBatch, i: number) => EventBucket | undefined = () => undefined,
  ): ComponentEvidence {
    return new ComponentEvidence(this, this.#clock, { component, reasons, bucketOf })
  }
}

interface About {
  readonly component: string
  readonly reasons: Readonly<Record<string, string>>
  readonly bucketOf: (batch: EventBatch, i: number) => EventBucket | undefined
}

export class ComponentEvidence implements FateObserver {
  readonly #to: KeptEvidence
  readonly #clock: Clock
  #about: About
  readonly #discards = new PlaceSample(KEPT_PER_SECOND)
  readonly #rejects = new PlaceSample(KEPT_PER_SECOND)
  readonly #arrivals = new PlaceSample(KEPT_PER_SECOND)
  readonly #deliveries = new PlaceSample(KEPT_PER_SECOND)
  /** The component's totals when the current second began. */
  #totals: readonly number[] | undefined
  /** Events rejected since `#totals` was set. */
  #rejected = 0

  constructor(to: KeptEvidence, clock: Clock, about: About) {
    this.#to = to
    this.#clock = clock
    this.#about = about
  }

  /** After a reload, continues with the new component that has the same id. */
  follow(about: Omit<About, 'component'>): void {
    this.#about = { ...this.#about, ...about }
  }

  /** Begins a new second. Reads the numbers from the counters, because counting each batch here would cost more. */
  second(counters: ComponentCounters): void {
    const totals = countsNow(counters)
    const before = this.#totals ?? totals
    const [received, sent, discarded] = totals.map((total, i) => Math.max(0, total - before[i]!))
    const { events, bytes } = counters.received
    const size = bytes / Math.max(1, events)
    this.#arrivals.second(received!, size)
    this.#deliveries.second(sent!, size)
    this.#discards.second(discarded!, size)
    this.#rejects.second(this.#rejected, size)
    this.#to.passed.seen(this.#about.component, received!)
    this.#to.discarded.seen(this.#about.component, Math.max(0, discarded! - this.#rejected))
    this.#totals = totals
    this.#rejected = 0
  }

  #keep(
    to: KeptEvents,
    what: EventFate,
    batch: EventBatch,
    i: number,
    {
      reason = '',
      words = '',
      bucket,
      rule = '',
    }: Partial<Pick<KeptEvent, 'reason' | 'words' | 'bucket' | 'rule'>> = {},
    hasText = true,
  ): void {
    const { bytes, start, end } = hasText ? encodedEvent(JSON_OBJECTS, batch, i) : NO_TEXT
    const length = end - start
    const text = bytes.subarray(start, Math.min(end, start + LONGEST_TEXT))
    const id = eventIdBytes(batch, i)
    const at = this.#clock.wall()
    const { component } = this.#about
    to.add({
      at,
      component,
      what,
      id,
      reason,
      words,
      rule,
      bucket,
      text,
      isCut: length > LONGEST_TEXT,
    })
  }

  wants(batch: EventBatch): boolean {
    return this.#discards.wants(batch)
  }

  #reject(events: number): void {
    this.#rejected += events
    this.#to.rejected.seen(this.#about.component, events)
  }

  discarded({ batch, reason, events, to, value, areKept = false, error }: DiscardedEvents): void {
    const { reasons, bucketOf } = this.#about
    const kept = areKept ? this.#to.rejected : this.#to.discarded
    if (areKept) this.#reject(events)
    const keep = (i: number) => {
      const words = error?.(i) ?? reasons[reason] ?? WORDS[reason] ?? reason
      const where = Object.hasOwn(reasons, reason) ? bucketOf(batch, i) : undefined
      this.#keep(kept, areKept ? 'rejected' : 'discarded', batch, i, { reason, words, ...where })
    }
    this.#discards.choose(batch, keep, to, value)
  }

  rejected(request: readonly EventBatch[], error: DeliveryError): void {
    const { reason, message, messages } = error
    let before = 0
    for (const batch of request) {
      const first = before
      before += batch.length
      this.#reject(batch.length)
      const keep = (i: number) =>
        this.#keep(this.#to.rejected, 'rejected', batch, i, { reason, words: messages?.[first + i] ?? message })
      this.#rejects.choose(batch, keep)
    }
  }

  delivered(request: readonly EventBatch[]): void {
    for (const batch of request)
      if (this.#deliveries.wants(batch)) this.#keepSome(this.#deliveries, 'delivered', batch, false)
  }

  #keepSome(sample: PlaceSample, what: EventFate, batch: EventBatch, hasText = true): void {
    sample.choose(batch, i => this.#keep(this.#to.passed, what, batch, i, {}, hasText))
  }

  /** Observes the output of a source. */
  readonly read = (batch: EventBatch): void => {
    if (this.#arrivals.wants(batch)) this.#keepSome(this.#arrivals, 'read', batch)
  }

  /** Observes the input of a destination. */
  readonly reached = (batch: EventBatch): void => {
    if (this.#arrivals.wants(batch)) this.#keepSome(this.#arrivals, 'passed', batch)
  }
}

const NO_TEXT = { bytes: Buffer.alloc(0), start: 0, end: 0 }
