import { z } from 'zod'
import { type Destination, defineDestination } from '../../src/core/component.js'
import { DeliveryError } from '../../src/core/errors.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { causeOf } from '../../src/net/http/client/answers/statuses.js'
import { currentMachine } from './machine.js'
import { marksOf, numberIn } from './marks.js'
import type { World } from './world.js'

/** What a receiver does with requests for a while. */
export const MOODS = [
  'accepts',
  'slow',
  'silent',
  'loses_answers',
  'unavailable',
  'denies',
  'refuses',
  'refuses_some',
  'refuses_some_and_waits',
  'too_large',
] as const
export type Mood = (typeof MOODS)[number]

/** How long a request is on its way. */
const WAY_MS = 20
const SLOW_MS = 4000
const LARGEST = 3

type Answer = { readonly error?: DeliveryError } | 'none'

const failure = (failure: 'retry' | 'hold' | 'too_large' | 'reject', status: number, more = {}) => ({
  error: new DeliveryError(`status ${status}`, {
    failure,
    reason: `status_${status}`,
    status,
    causedBy: causeOf(status),
    ...more,
  }),
})

/** Who gets events at the other end of the network. It survives every crash of the process. */
export class Receiver {
  readonly id: string
  readonly #world: World
  mood: Mood = 'accepts'
  /** What it does when nothing is wrong with it: some take small requests only. */
  readonly healthy: Mood
  /** How often each event arrived. */
  readonly arrived = new Map<string, number>()
  readonly refused = new Set<string>()
  /** It asked for these once more, after others of their request. */
  readonly #putOff = new Set<string>()
  /** The highest number that arrived, by topic; violations are counted where order is promised. */
  readonly #last = new Map<string, number>()
  /** Whether an event has to come in order. */
  ordered: (mark: string) => boolean = () => false

  constructor(id: string, world: World) {
    this.id = id
    this.#world = world
    this.healthy = world.random.chance(0.2) ? 'too_large' : 'accepts'
  }

  /** Another process may pass what the throttles of the one before discarded, if it reads that again. */
  forgetOrder(): void {
    this.#last.clear()
  }

  /** A request has arrived: an event is the marks that it has. */
  take(events: readonly string[][]): Answer {
    const { random } = this.#world
    const mood = this.#moodNow()
    this.#world.say(() => `receiver ${this.id} ${mood}: ${events.flat().join(' ')}`)
    if (mood !== 'accepts') this.#world.fault(`receiver ${mood}`)
    switch (mood) {
      case 'unavailable':
        return failure('retry', 503, random.chance(0.2) ? { retryAfterMs: 1000 + random.below(9000) } : {})
      case 'denies':
        return failure('hold', 401)
      case 'refuses':
        return this.#refuse(events, 400)
      case 'too_large':
        if (events.length > LARGEST) return failure('too_large', 413)
        break
      case 'silent':
        if (random.chance(0.5)) this.#accept(events)
        return 'none'
      case 'loses_answers':
        this.#accept(events)
        return random.chance(0.5) ? 'none' : failure('retry', 502)
      case 'refuses_some':
      case 'refuses_some_and_waits':
        return this.#divide(events, mood === 'refuses_some_and_waits')
    }
    this.#accept(events)
    return {}
  }

  /** Most moods let something through, so that what was stuck goes on. */
  #moodNow(): Mood {
    return this.mood === 'accepts' || this.#world.random.chance(0.2) ? 'accepts' : this.mood
  }

  #refuse(events: readonly string[][], status: number): Answer {
    for (const mark of events.flat()) this.refused.add(mark)
    return failure('reject', status)
  }

  #divide(events: readonly string[][], waits: boolean): Answer {
    const { random } = this.#world
    const rejected: number[] = []
    const again: number[] = []
    const taken: string[][] = []
    events.forEach((marks, i) => {
      const fate = random.next()
      if (fate < 0.3) {
        rejected.push(i)
        for (const mark of marks) this.refused.add(mark)
      } else if (waits && fate < 0.6) {
        again.push(i)
        for (const mark of marks) this.#putOff.add(mark)
      } else taken.push(marks)
    })
    this.#accept(taken)
    if (rejected.length === 0 && again.length === 0) return {}
    return failure(again.length > 0 ? 'retry' : 'reject', 207, { rejected, again })
  }

  #accept(events: readonly string[][]): void {
    for (const mark of events.flat()) {
      const before = this.arrived.get(mark) ?? 0
      this.arrived.set(mark, before + 1)
      if (before > 0 || this.refused.has(mark) || this.#putOff.has(mark)) continue
      const topic = mark[0]!
      const last = this.#last.get(topic) ?? -1
      const number = numberIn(mark)
      if (!this.ordered(mark)) continue
      if (number < last) this.#world.violate(`${this.id}: order: ${mark} arrived first after ${topic}${last}`)
      this.#last.set(topic, Math.max(last, number))
    }
  }
}

const options = z.strictObject({ version: z.int().default(0) })

function send(receiver: Receiver, request: readonly EventBatch[], signal: AbortSignal): Promise<void> {
  const { world } = currentMachine()
  const events = request.flatMap(batch => Array.from({ length: batch.length }, (_, i) => marksOf(batch, i)))
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    world.after(1 + world.random.below(WAY_MS), () => {
      const answer = receiver.take(events)
      if (answer === 'none') return
      const ms = receiver.mood === 'slow' ? world.random.below(SLOW_MS) : 1 + world.random.below(WAY_MS)
      world.after(ms, () => (answer.error ? reject(answer.error) : resolve()), true)
    })
  })
}

export const receiverDestination = defineDestination({
  type: 'sim_receiver',
  summary: 'Sends to a receiver.',
  options,
  examples: [{ title: 'A receiver', yaml: '' }],
  create: (_options, { id }): Destination => {
    const receiver = currentMachine().receivers.get(id)!
    return { write: (request, signal) => send(receiver, request, signal) }
  },
})
