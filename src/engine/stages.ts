import type { Logger } from 'pino'
import type { ComponentConfig } from '../config/load.js'
import type { Processor } from '../core/component.js'
import type { Origin } from '../core/event/origin.js'
import { showUtilization } from '../flow/busy.js'
import type { ComponentCounters } from '../flow/counters.js'
import type { DiskAllowance } from '../flow/disk-allowance.js'
import { Stage } from '../flow/stage.js'
import type { TimerClock } from '../lib/time.js'
import { openDeadLetters } from './dead-letter/stock.js'

export interface ProcessorSurroundings {
  readonly log: Logger
  readonly clock: TimerClock
  readonly metrics: ComponentCounters
  /** Of the events that the processor makes. */
  readonly origin: Origin
  readonly dataDir: string
  readonly disk: DiskAllowance | undefined
}

/** The processors of a pipeline, each in its stage. */
export class Stages {
  readonly #stages = new Map<string, Stage>()

  add(
    { id, plan = {}, onError = 'pass' }: ComponentConfig,
    processor: Processor,
    around: ProcessorSurroundings,
  ): Stage {
    const { log, clock, metrics, origin, dataDir } = around
    const deadLetters = onError === 'dead_letter' ? openDeadLetters(id, dataDir, around) : undefined
    const stage = new Stage(processor, plan, { id, log, clock, metrics, origin, onError, deadLetters })
    metrics.holds = () => stage.holds()
    showUtilization(metrics, stage.busy)
    if (deadLetters) {
      const help = 'Whether dead letters cannot be written: then nothing passes until that works.'
      metrics.gauge('sluice_dead_letters_unwritable', help, () => (stage.isUnwritable ? 1 : 0))
    }
    this.#stages.set(id, stage)
    return stage
  }

  /** Also those whose output nobody reads. */
  get all(): Iterable<Stage> {
    return this.#stages.values()
  }

  /** Starts them one after the other. Does not throw: `failed` is called for one that cannot start. */
  async start(signal: AbortSignal, failed: (id: string, error: unknown) => void): Promise<void> {
    for (const [id, stage] of this.#stages) await stage.start(signal).catch(error => failed(id, error))
  }

  async stop(deadline: AbortSignal): Promise<void> {
    for (const stage of this.#stages.values()) await stage.stop(deadline)
  }

  /** Others take their place: what they keep of events does not go over to these. */
  leave(): void {
    for (const stage of this.#stages.values()) stage.isReplaced = true
  }

  destroy(): void {
    for (const stage of this.#stages.values()) stage.destroy()
  }
}
