import { z } from 'zod'
import { defineProcessor, type Processor } from '../../src/core/component.js'
import type { Share } from '../../src/core/event/ack.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { type BatchScope, CONSUMED, discard, type Emitted, FAILED, output } from '../../src/core/processor.js'
import { sleep } from '../../src/lib/time.js'
import { currentMachine } from './machine.js'
import { marksOf, numberIn } from './marks.js'

/** What a simulated processor does with the events whose number is a multiple of `every`; all others pass. */
export const DEEDS = ['pass', 'discard', 'route', 'copy', 'fail', 'throw', 'explode', 'summarize'] as const
export type Deed = (typeof DEEDS)[number]

const options = z.strictObject({
  deed: z.enum(DEEDS),
  every: z.int().default(3),
  /** Milliseconds that a batch takes at most; 0: nothing is waited for. */
  delay: z.int().default(0),
  concurrency: z.int().default(1),
  version: z.int().default(0),
})
type Options = z.output<typeof options>

const SUMMARY_MS = 700

/** Whether an event is one of those that the processor does something with. */
export function isChosen(mark: string, { deed, every }: Pick<Options, 'deed' | 'every'>): boolean {
  return deed === 'summarize' || numberIn(mark) % every === 0
}

class SimulatedProcessor implements Processor {
  readonly #options: Options
  #kept: { marks: string[]; shares: Share[] } = { marks: [], shares: [] }

  constructor(given: Options) {
    this.#options = given
  }

  async #slowly(batch: EventBatch, to: Uint8Array, scope: BatchScope): Promise<void> {
    await sleep(currentMachine().world.random.below(this.#options.delay), scope.signal)
    this.#decide(batch, to, scope)
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void | Promise<void> {
    if (this.#options.delay > 0) return this.#slowly(batch, to, scope)
    this.#decide(batch, to, scope)
    return undefined
  }

  #decide(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    const { deed } = this.#options
    const share = deed === 'summarize' ? scope.share() : undefined
    if (share) this.#kept.shares.push(share)
    for (let i = 0; i < batch.length; i++) {
      const marks = marksOf(batch, i)
      if (!isChosen(marks[0]!, this.#options)) continue
      if (deed === 'discard') to[i] = discard(0)
      else if (deed === 'route') to[i] = output(0)
      else if (deed === 'copy') scope.copy(i, 0)
      else if (deed === 'fail') to[i] = FAILED
      else if (deed === 'throw') throw new Error('thrown on purpose')
      else if (deed === 'explode') scope.replace(i, [partOf(marks, 'x'), partOf(marks, 'y')])
      else if (deed === 'summarize') {
        this.#kept.marks.push(...marks)
        to[i] = CONSUMED
      }
    }
  }

  emit(): readonly Emitted[] {
    const { marks, shares } = this.#kept
    this.#kept = { marks: [], shares: [] }
    if (shares.length === 0) return []
    return [{ fields: { id: marks.map(mark => `#${mark}#`).join('') }, shares }]
  }
}

const partOf = (marks: readonly string[], part: string) => ({
  id: marks.map(mark => (/[xy]$/.test(mark) ? `#${mark}#` : `#${mark}${part}#`)).join(''),
})

export const simulatedProcessor = defineProcessor({
  type: 'sim_processor',
  summary: 'Does something with some events.',
  options,
  examples: [{ title: 'Passes', yaml: 'deed: pass\n' }],
  reasons: { chosen: 'Its number is a multiple of `every`.' },
  plan: ({ deed, concurrency }) => ({
    concurrency,
    ...(deed === 'route' || deed === 'copy' ? { outputs: ['chosen'], copies: deed === 'copy' } : {}),
    ...(deed === 'discard' ? { reasons: ['chosen'] } : {}),
    ...(deed === 'summarize' ? { every: SUMMARY_MS } : {}),
  }),
  create: given => new SimulatedProcessor(given),
})
