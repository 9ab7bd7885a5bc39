import type { ThrottleConfig } from '../../../components/processors/throttle/options.js'
import { keyedOf } from '../../../components/throttle/keyed-processor.js'
import type { Followed } from '../../../daemon/run/page-wing.js'
import { componentsOf } from '../../../engine/config/inputs.js'
import type { Config } from '../../../engine/config/load.js'
import type { ComponentCounters } from '../../../engine/flow/counters.js'
import type { Links } from '../../../engine/run/links.js'
import { pathOf } from '../../../engine/run/state/inventory.js'
import type { TimerClock } from '../../../lib/time.js'
import type { Turn } from './budget.js'
import { type Letters, newestLetters } from './dead-letters.js'
import { type ComponentEvidence, KeptEvidence } from './evidence.js'
import { type EventStep, type FoundEvents, find, parsed, stepOf } from './find.js'
import type { Asked } from './question.js'
import { QuestionError } from './question-error.js'
import { type ThrottleView, ThrottleWatch, type WantedKeys, type WhatIf } from './throttle-watch.js'

const COUNTS_SHARE = 1 / 2
const EVENTS_SHARE = 1 / 4
const MOST_EVENTS = 200
const MOST_LOOKS = 20_000

export interface EvidenceEvent extends Omit<EventStep, 'component' | 'what'> {
  /** The event, or the beginning of its JSON. */
  readonly event: unknown
}

export interface EvidenceQuery {
  readonly component: string
  readonly reason?: string | undefined
  /** Null: the default bucket. */
  readonly bucket?: string | null | undefined
  readonly limit?: number | undefined
}

/**
 * The data that a daemon keeps for its page: counts of throttles by key, and events. Counts get half of the memory, in
 * equal shares for all throttles. Events get a quarter.
 */
export class PageWatch {
  #memory: number
  readonly #clock: TimerClock
  readonly #evidence: KeptEvidence
  readonly #components = new Map<string, ComponentEvidence>()
  readonly #throttles = new Map<string, ThrottleWatch>()
  readonly #unfollow: () => void
  #ends: (() => void)[] = []
  /** Undefined while no pipeline runs. */
  #links: Links | undefined
  #config: Config | undefined
  #ids: ReadonlySet<string> = new Set()

  /** `memory`: the memory of the whole page, in bytes. */
  constructor(pipeline: Followed, memory: number, clock: TimerClock) {
    this.#memory = memory
    this.#clock = clock
    this.#evidence = new KeptEvidence(memory * EVENTS_SHARE, clock)
    this.#unfollow = pipeline.follow((links, config) => this.#follow(links, config))
  }

  #follow(links: Links, config: Config): void {
    this.#links = links
    this.#config = config
    this.#ends = []
    this.#ids = new Set(componentsOf(config).map(({ id }) => id))
    for (const id of this.#components.keys()) if (!this.#ids.has(id)) this.#components.delete(id)
    this.#evidence.keepOnly(this.#ids)
    for (const source of config.sources) this.#tap(links, source.id, this.#of(source).read)
    for (const destination of config.destinations) {
      const evidence = this.#of(destination)
      this.#tap(links, destination.id, evidence.reached)
      this.#observe(links, destination.id, evidence)
    }
    for (const processor of config.processors) {
      const { id } = processor
      const keyed = keyedOf(links.processor(id))
      const evidence = this.#of(processor)
      evidence.follow({
        reasons: processor.definition.reasons ?? {},
        bucketOf: (batch, i) => keyed?.bucketOf(batch, i),
      })
      this.#observe(links, id, evidence)
    }
    this.#followThrottles()
  }

  limit(memory: number): void {
    if (memory === this.#memory) return
    this.#memory = memory
    this.#evidence.limit(memory * EVENTS_SHARE)
    this.#followThrottles()
  }

  #of({ id }: { readonly id: string }): ComponentEvidence {
    let evidence = this.#components.get(id)
    if (!evidence) this.#components.set(id, (evidence = this.#evidence.of(id)))
    return evidence
  }

  #tap(links: Links, id: string, see: ComponentEvidence['read']): void {
    const end = links.tap(id, see)
    if (end) this.#ends.push(end)
  }

  #observe(links: Links, id: string, evidence: ComponentEvidence): void {
    links.observe(id, evidence)
    this.#ends.push(() => links.observe(id, undefined))
  }

  #followThrottles(): void {
    const { processors = [] } = this.#config ?? {}
    const throttles = processors.flatMap(({ id, options }) => {
      const processor = keyedOf(this.#links?.processor(id))
      return processor ? [{ id, processor, options: options as ThrottleConfig }] : []
    })
    const share = (this.#memory * COUNTS_SHARE) / Math.max(1, throttles.length)
    const ids = new Set(throttles.map(({ id }) => id))
    for (const [id, watch] of this.#throttles) {
      if (ids.has(id)) continue
      watch.stop()
      this.#throttles.delete(id)
    }
    for (const { id, processor, options } of throttles) {
      const known = this.#throttles.get(id)
      if (known) known.follow(options, processor, share)
      else this.#throttles.set(id, new ThrottleWatch(options, processor, share, this.#clock))
    }
  }

  /** Call it once per second, with the counters of all components. */
  second(all: Iterable<ComponentCounters>): void {
    for (const counters of all) this.#components.get(counters.id)?.second(counters)
  }

  stop(): void {
    this.#unfollow()
    for (const end of this.#ends) end()
    for (const throttle of this.#throttles.values()) throttle.stop()
  }

  get used(): number {
    return [...this.#throttles.values()].reduce((sum, { used }) => sum + used, this.#evidence.used)
  }

  /** The buckets of a throttle; undefined if the throttle does not exist. */
  async throttle(id: string, wanted: WantedKeys, turn: Turn): Promise<ThrottleView | undefined> {
    return this.#throttles.get(id)?.view(wanted, turn)
  }

  /** The events that would pass a throttle with other options. Throws QuestionError. */
  async whatIf(id: string, asked: Asked, turn: Turn): Promise<WhatIf> {
    const throttle = this.#throttles.get(id)
    if (!throttle) throw new QuestionError(this.#noThrottle(id))
    return throttle.whatIf(asked, turn)
  }

  #noThrottle(id: string): string {
    const ids = [...this.#throttles.keys()]
    const known = ids.length > 0 ? `there are ${ids.join(', ')}` : 'the configuration has no throttle'
    return `component: there is no throttle ${id}; ${known}`
  }

  /** Finds events by a text, a condition or an id. Throws QuestionError. */
  find(query: string, turn: Turn, limit?: number): Promise<FoundEvents> {
    return find(this.#evidence, query, turn, limit)
  }

  /** The newest events that a component has discarded or rejected. Throws QuestionError. */
  evidence({ component, reason, bucket, limit = 20 }: EvidenceQuery): { from: string | null; events: EvidenceEvent[] } {
    this.#known(component)
    const { discarded, rejected } = this.#evidence
    const events: EvidenceEvent[] = []
    const kept = [discarded, rejected].map(events => events.about(component).from ?? Number.POSITIVE_INFINITY)
    const from = Math.min(...kept)
    for (const all of [discarded, rejected]) {
      let [left, looks] = [Math.min(limit, MOST_EVENTS), MOST_LOOKS]
      for (const cursor of all.newest(component)) {
        if (left === 0 || looks-- === 0) break
        const event = cursor.event()
        if (reason !== undefined && event.reason !== reason) continue
        if (bucket !== undefined && event.bucket !== bucket) continue
        left--
        const { component: _component, what: _what, ...step } = stepOf(event)
        const text = event.text.toString()
        events.push({ ...step, event: event.isCut ? text : (parsed(text) ?? text) })
      }
    }
    events.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0))
    return {
      from: from === Number.POSITIVE_INFINITY ? null : new Date(from).toISOString(),
      events: events.slice(0, limit),
    }
  }

  /** Throws QuestionError. */
  letters(component: string, hasTexts: boolean): Promise<Letters> {
    this.#known(component)
    return newestLetters(pathOf(this.#config!.dataDir, 'dead_letters', component), hasTexts)
  }

  #known(component: string): void {
    if (!this.#ids.has(component))
      throw new QuestionError(`component: there is no ${component || 'component without an id'}`)
  }
}
