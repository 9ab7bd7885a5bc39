import { z } from 'zod'
import { JSON_OBJECTS } from '../../src/core/codecs/json.js'
import { defineSource, type Output } from '../../src/core/component.js'
import type { AckStatus } from '../../src/core/event/ack.js'
import { EventBatch } from '../../src/core/event/batch.js'
import { LineSplitter } from '../../src/lib/lines/line-splitter.js'
import { aborted } from '../../src/lib/time.js'
import { currentMachine } from './machine.js'
import { once, type Topic } from './topic.js'
import type { World } from './world.js'

/** Clients that send the events of a topic in requests, and send a request again until it is acknowledged. */

type Listener = (text: string, answer: (status: AckStatus) => void) => void

const REQUEST = 4
/** A client asks again after so long without an answer, and then after twice the time. */
const PATIENCE_MS = 5000
const PAUSE_MS = 300

export class Clients {
  readonly #world: World
  readonly #topic: Topic
  #listening: { readonly listener: Listener; readonly process: number } | undefined
  /** Events that were acknowledged. */
  acknowledged = 0

  constructor(topic: Topic, world: World) {
    this.#topic = topic
    this.#world = world
    for (let from = 0; from < topic.count; from += REQUEST) {
      const end = Math.min(topic.count, from + REQUEST)
      world.after(end * topic.everyMs, () => this.#send(from, end))
    }
  }

  /** Takes requests until the result is called, or the process ends. */
  listen(listener: Listener): () => void {
    const listening = { listener, process: this.#world.killed }
    this.#listening = listening
    return () => {
      if (this.#listening === listening) this.#listening = undefined
    }
  }

  #send(from: number, end: number, patienceMs = PATIENCE_MS): void {
    const world = this.#world
    const text = Array.from({ length: end - from }, (_, i) => this.#topic.line(from + i)).join('')
    let isOver = false
    const again = (ms: number, patienceMs?: number) => {
      if (isOver) return
      isOver = true
      world.after(ms, () => this.#send(from, end, patienceMs))
    }
    const patience = world.after(patienceMs, () => again(0, 2 * patienceMs))
    if (this.#listening?.process !== world.killed) {
      again(PAUSE_MS)
      return
    }
    this.#listening.listener(text, status => {
      if (status === 'errored') return again(PAUSE_MS)
      if (isOver) return
      isOver = true
      patience.isOver = true
      this.acknowledged += end - from
      world.say(() => `client: ${this.#topic.id}${from}-${end - 1} was acknowledged: ${status}`)
    })
  }
}

export const clientsOf = new WeakMap<Topic, Clients>()

const options = z.strictObject({ topic: z.string(), version: z.int().default(0) })

export const clientsSource = defineSource({
  type: 'sim_clients',
  summary: 'Takes requests, and answers them.',
  options,
  examples: [{ title: 'Clients', yaml: '' }],
  create(given, context) {
    const origin = context.origin(JSON_OBJECTS)
    const { topics } = currentMachine()
    const clients = clientsOf.get(topics.get(given.topic)!)!
    return {
      answers: true,
      async run(out: Output, signal: AbortSignal) {
        const listener: Listener = (text, answer) => {
          const frame = new LineSplitter(2 ** 30).push(Buffer.from(text))!
          const ack = out.ack(once(`request ${text.slice(7, 12)}`, answer))
          void out.send(new EventBatch(frame, origin, context.clock.wall(), ack))
        }
        const end = clients.listen(listener)
        await aborted(signal)
        end()
      },
    }
  },
})
