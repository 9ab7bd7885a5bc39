import type { ComponentCounters } from '../../engine/flow/counters.js'
import type { Clock } from '../../lib/time.js'

/**
 * The counts of each component in each step of the last hour. Each component has a ring of numbers, indexed by the step
 * of the monotonic clock. If the rings exceed their memory limit, steps become longer.
 */

const SPAN_MS = 3_600_000
const LEAST_STEP_MS = 1000
const LONGEST_STEP_MS = SPAN_MS / 16
const NAMES = ['received', 'sent', 'discarded', 'in_flight'] as const
type Name = (typeof NAMES)[number]
/** The index of `in_flight`, which is a gauge. All other numbers are counters. */
const LEVEL = NAMES.length - 1
/** Marks a step in which nothing was counted. */
const UNKNOWN = 2 ** 32 - 1
const MOST = UNKNOWN - 1
/** Maximum number of values in an answer about all components, which is made at once. */
const MOST_VALUES = 200_000
/** If the gap between two ticks is longer, the process was suspended, and only the last step of the gap gets counts. */
const LONGEST_GAP_MS = 10_000

interface Ring {
  /** Replaced by other counters when a component of another type takes the id. */
  counters: ComponentCounters
  /** The totals at the last tick. */
  base: readonly number[]
  /** By step, then by name. */
  numbers: Uint32Array
}

export interface ComponentHistory {
  readonly from: string
  readonly step_ms: number
  readonly names: readonly Name[]
  /** Events per second; for `in_flight`, the number of events. The value of an unknown step is null. */
  readonly values: Readonly<Record<Name, readonly (number | null)[]>>
}

export interface AllHistory {
  readonly from: string
  readonly step_ms: number
  readonly components: Readonly<Record<string, Readonly<Record<string, readonly (number | null)[]>>>>
}

export class History {
  readonly #components: () => Iterable<ComponentCounters>
  readonly #clock: Clock
  readonly #rings = new Map<string, Ring>()
  #maxBytes: number
  #stepMs = LEAST_STEP_MS
  /** `#first`: the first counted step. `#last`: the newest counted step. */
  #first: number
  #last: number

  constructor(components: () => Iterable<ComponentCounters>, maxBytes: number, clock: Clock) {
    this.#components = components
    this.#clock = clock
    this.#maxBytes = maxBytes
    this.#last = this.#stepAt(clock.now())
    this.#first = this.#last
    this.#meet()
  }

  get stepMs(): number {
    return this.#stepMs
  }

  get spanMs(): number {
    return SPAN_MS
  }

  get used(): number {
    return this.#rings.size * bytesOf(this.#stepMs)
  }

  limit(maxBytes: number): void {
    this.#maxBytes = maxBytes
    this.#fit()
  }

  /** Counts the events since the last call. Call it once per second. */
  tick(): void {
    this.#meet()
    const step = this.#stepAt(this.#clock.now())
    const steps = step - this.#last
    const isGap = steps * this.#stepMs > LONGEST_GAP_MS && steps > 1
    for (const ring of this.#rings.values()) this.#count(ring, step, steps, isGap)
    this.#last = Math.max(step, this.#last)
  }

  #count(ring: Ring, step: number, steps: number, isGap: boolean): void {
    const now = countsNow(ring.counters)
    const from = step - Math.min(steps, capacityOf(this.#stepMs)) + 1
    for (let name = 0; name < NAMES.length; name++) {
      const isLevel = name === LEVEL
      let left = isLevel ? now[name]! : Math.max(0, now[name]! - ring.base[name]!)
      if (steps <= 0) this.#add(ring, this.#last, name, left, isLevel)
      // If a call is late, the missed steps and the current step each get an equal share of the events.
      for (let at = from; at <= step; at++) {
        const isKnown = !isGap || at === step
        const share = isLevel ? left : Math.floor(left / (step - at + 1))
        ring.numbers[this.#place(at, name)] = isKnown ? Math.min(MOST, share) : UNKNOWN
        if (isKnown && !isLevel) left -= share
      }
    }
    ring.base = now
  }

  #add({ numbers }: Ring, step: number, name: number, more: number, isLevel: boolean): void {
    const place = this.#place(step, name)
    const before = numbers[place]!
    numbers[place] = Math.min(MOST, isLevel || before === UNKNOWN ? more : before + more)
  }

  /** Adds rings for new components, and deletes the rings of removed components. */
  #meet(): void {
    const running = new Map([...this.#components()].map(counters => [counters.id, counters]))
    for (const id of this.#rings.keys()) if (!running.has(id)) this.#rings.delete(id)
    for (const [id, counters] of running) {
      const ring = this.#rings.get(id)
      if (ring && ring.counters !== counters) Object.assign(ring, { counters, base: countsNow(counters) })
      if (ring) continue
      const numbers = new Uint32Array(capacityOf(this.#stepMs) * NAMES.length).fill(UNKNOWN)
      this.#rings.set(id, { counters, base: countsNow(counters), numbers })
      this.#fit()
    }
  }

  /** Doubles the length of the steps until the rings fit their limit. */
  #fit(): void {
    while (this.used > this.#maxBytes && this.#stepMs < LONGEST_STEP_MS) {
      const before = capacityOf(this.#stepMs)
      const [first, last] = [this.#oldest(), this.#last]
      this.#stepMs *= 2
      this.#last = Math.floor(last / 2)
      this.#first = Math.floor(this.#first / 2)
      for (const ring of this.#rings.values()) {
        const old = ring.numbers
        ring.numbers = new Uint32Array(capacityOf(this.#stepMs) * NAMES.length).fill(UNKNOWN)
        for (let step = first; step <= last; step++)
          for (let name = 0; name < NAMES.length; name++) {
            const number = old[(step % before) * NAMES.length + name]!
            if (number !== UNKNOWN) this.#add(ring, Math.floor(step / 2), name, number, name === LEVEL)
          }
      }
    }
  }

  #stepAt(ms: number): number {
    return Math.floor(ms / this.#stepMs)
  }

  #place(step: number, name: number): number {
    return (step % capacityOf(this.#stepMs)) * NAMES.length + name
  }

  #oldest(): number {
    return Math.max(this.#first, this.#last - capacityOf(this.#stepMs) + 1)
  }

  /** The newest complete step. */
  #newest(): number {
    return this.#stepMs === LEAST_STEP_MS ? this.#last : this.#last - 1
  }

  #timeOf(step: number): string {
    return new Date(this.#clock.wall() - this.#clock.now() + step * this.#stepMs).toISOString()
  }

  /** The history of a component, at most an hour; undefined if the component does not exist. */
  of(id: string): ComponentHistory | undefined {
    const ring = this.#rings.get(id)
    if (!ring) return undefined
    const [from, to] = [this.#oldest(), this.#newest()]
    const values = NAMES.map((name, i) => [name, this.#read(ring, i, from, to, 1)])
    return { from: this.#timeOf(from), step_ms: this.#stepMs, names: NAMES, values: Object.fromEntries(values) }
  }

  /** The history of all components, in at most `points` points. */
  all(points: number): AllHistory {
    const [oldest, to] = [this.#oldest(), this.#newest()]
    const most = Math.max(1, Math.min(points, Math.floor(MOST_VALUES / (this.#rings.size * LEVEL || 1))))
    const width = Math.max(1, Math.ceil((to - oldest + 1) / most))
    // Points begin at multiples of `width`, so later calls give the same points.
    const from = oldest - (oldest % width)
    const components = [...this.#rings].map(([id, ring]) => [
      id,
      Object.fromEntries(NAMES.slice(0, LEVEL).map((name, i) => [name, this.#read(ring, i, from, to, width)])),
    ])
    return {
      from: this.#timeOf(from),
      step_ms: width * this.#stepMs,
      components: Object.fromEntries(components),
    }
  }

  /** Returns one number for each group of `width` steps. */
  #read({ numbers }: Ring, name: number, from: number, to: number, width: number): (number | null)[] {
    const oldest = this.#oldest()
    const values: (number | null)[] = []
    for (let start = from; start <= to; start += width) {
      let sum = 0
      let known = 0
      for (let step = Math.max(start, oldest); step < start + width && step <= to; step++) {
        const number = numbers[this.#place(step, name)]!
        if (number === UNKNOWN) continue
        sum = name === LEVEL ? number : sum + number
        known++
      }
      const value = name === LEVEL ? sum : (sum * 1000) / (known * this.#stepMs)
      values.push(known === 0 ? null : Math.round(value * 1000) / 1000)
    }
    return values
  }
}

const capacityOf = (stepMs: number): number => Math.ceil(SPAN_MS / stepMs)
const bytesOf = (stepMs: number): number => capacityOf(stepMs) * NAMES.length * Uint32Array.BYTES_PER_ELEMENT

/** Returns the totals in the order of NAMES. */
export function countsNow(counters: ComponentCounters): [number, number, number, number] {
  let sent = counters.passed.events
  for (const { events } of counters.aside.values()) sent += events
  let discarded = 0
  for (const { events } of counters.discards.values()) discarded += events
  return [counters.received.events, sent, discarded, counters.inFlight().events]
}
