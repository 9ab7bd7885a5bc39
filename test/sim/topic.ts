import { z } from 'zod'
import { JSON_OBJECTS } from '../../src/core/codecs/json.js'
import { defineSource, type Output, type Source, type SourceContext } from '../../src/core/component.js'
import { GivenBackError } from '../../src/core/errors.js'
import type { AckStatus } from '../../src/core/event/ack.js'
import { EventBatch } from '../../src/core/event/batch.js'
import { LowWaterMark } from '../../src/engine/flow/low-water-mark.js'
import { type Frame, LineSplitter } from '../../src/lib/lines/line-splitter.js'
import { sleep } from '../../src/lib/time.js'
import { currentMachine } from './machine.js'
import { markOf, numberIn } from './marks.js'
import type { World } from './world.js'

/** Events that come over time and can be read again from any place, such as a file or a partition of a log. */
export class Topic {
  readonly id: string
  readonly count: number
  /** Milliseconds between two events. */
  readonly everyMs: number
  readonly sizes: readonly number[]
  /** The position that survives everything, since it was reported as saved. */
  saved = 0
  /** Looks whether more of it was saved by now. */
  isSaved = () => {}

  constructor(id: string, world: World) {
    const { random, size } = world
    this.id = id
    this.count = size.leastEvents + random.below(random.pick(size.events))
    this.everyMs = random.pick(size.everyMs)
    this.sizes = [20, random.pick([20, 200]), random.pick([20, 2000])]
  }

  available(now: number): number {
    return Math.min(this.count, Math.floor(now / this.everyMs))
  }

  /** When all events are there. */
  get fullAt(): number {
    return this.count * this.everyMs
  }

  line(number: number): string {
    return eventLine(markOf(this.id, number), this.sizes[number % this.sizes.length]!)
  }
}

export function eventLine(mark: string, size: number): string {
  return `{"id":"#${mark}#","k":"${numberIn(mark) % 2}","pad":"${'.'.repeat(size)}"}\n`
}

/** Memory that a batch with it counts as holding, so that few events come to the bound. */
const LARGE = Buffer.from(new ArrayBuffer(8 * 1024 * 1024))
let largeAt = 0
let largeIn: World | undefined

function frameOf(text: string, large: boolean): Frame {
  const bytes = Buffer.from(text)
  const frame = new LineSplitter(2 ** 30).push(bytes)!
  if (!large) return frame
  const { world } = currentMachine()
  // Where its memory begins must not depend on worlds before it.
  if (world !== largeIn || largeAt + bytes.length > LARGE.length) largeAt = 0
  largeIn = world
  const shift = largeAt - frame.starts[0]!
  largeAt += bytes.copy(LARGE, largeAt)
  return { ...frame, chunk: LARGE, starts: frame.starts.map(at => at + shift), ends: frame.ends.map(at => at + shift) }
}

const options = z.strictObject({
  topic: z.string(),
  batch: z.int(),
  large: z.boolean().default(false),
  version: z.int().default(0),
})

/** Made once: an exception for each abort takes time. */
const REASON = new Error('woken')

/** Reads a topic from where it was acknowledged. */
class TopicSource implements Source {
  readonly #options: z.output<typeof options>
  readonly #context: SourceContext
  #committed: number | undefined
  #run = 0

  constructor(given: z.output<typeof options>, context: SourceContext) {
    this.#options = given
    this.#context = context
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    const { world, topics } = currentMachine()
    const { checkpoints, clock } = this.#context
    const topic = topics.get(this.#options.topic)!
    this.#committed ??= (checkpoints.read() as { next: number } | null | undefined)?.next ?? 0
    const own = ++this.#run
    let next = this.#committed
    world.say(() => `source ${this.#context.id}: reads from ${next}`)
    const settled = new LowWaterMark(next, () => {
      if (own !== this.#run) return
      this.#committed = settled.mark
      checkpoints.changed()
    })
    if (next < topic.saved)
      world.violate(`source ${this.#context.id}: position ${topic.saved} was saved, and is ${next}`)
    const saves: { readonly at: number; readonly next: number }[] = []
    checkpoints.provide(() => {
      saves.push({ at: clock.wall(), next: this.#committed! })
      return { next: this.#committed }
    })
    topic.isSaved = () => {
      while (saves[0] && saves[0].at < checkpoints.savedAt) topic.saved = Math.max(topic.saved, saves.shift()!.next)
    }
    const origin = this.#context.origin(JSON_OBJECTS)
    // The first read of all is no backlog.
    const backlogEnd = next > 0 ? topic.available(world.now) : 0
    let isBack = false
    const wake = new AbortController()
    signal.addEventListener('abort', () => wake.abort(REASON), { once: true })
    while (!signal.aborted) {
      if (isBack) throw new GivenBackError('given back')
      const most = next < backlogEnd ? backlogEnd : topic.available(world.now)
      const end = Math.min(most, next + this.#options.batch)
      if (end === next) {
        await sleep(next === topic.count ? 2 ** 30 : topic.everyMs, wake.signal)
        continue
      }
      const from = next
      next = end
      const lines = Array.from({ length: end - from }, (_, i) => topic.line(from + i)).join('')
      const settle = settled.add(end)
      const onSettled = once(`batch ${topic.id}${from}-${end - 1}`, status => {
        if (own !== this.#run) return
        if (status !== 'errored') return settle()
        isBack = true
        wake.abort(REASON)
      })
      const frame = frameOf(lines, this.#options.large)
      await out.send(new EventBatch(frame, origin, clock.wall(), out.ack(onSettled), from < backlogEnd))
    }
  }
}

/** Sees to it that an acknowledgement comes once. */
export function once(what: string, settled: (status: AckStatus) => void): (status: AckStatus) => void {
  const { world } = currentMachine()
  let before: AckStatus | undefined
  return status => {
    world.say(() => `${what}: ${status}`)
    if (before !== undefined) world.violate(`${what} was settled twice: ${before}, then ${status}`)
    before = status
    settled(status)
  }
}

export const topicSource = defineSource({
  type: 'sim_topic',
  summary: 'Reads a topic.',
  options,
  examples: [{ title: 'A topic', yaml: '' }],
  create: (given, context) => new TopicSource(given, context),
})
