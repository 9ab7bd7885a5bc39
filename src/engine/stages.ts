import type { Writable } from 'node:stream'
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

export interface ProcessorEnvironment {
  readonly log: Logger
  readonly clock: TimerClock
  readonly metrics: ComponentCounters
  /** Of the events that the processor creates. */
  readonly origin: Origin
  readonly dataDir: string
  readonly disk: DiskAllowance | undefined
  /** Whether a source reads again what was given back. */
  readonly readsAgain: (source: string) => boolean
  /** Whether a source cannot read again what it has sent. */
  readonly isOnce: (source: string) => boolean
}

/** The processors of a pipeline and their stages. */
export class Stages {
  readonly #stages = new Map<string, Stage>()
  /** Those whose successors take what they keep between batches. */
  readonly #keeping = new Set<string>()

  add(
    { id, plan = {}, onError = 'pass' }: ComponentConfig,
    processor: Processor,
    environment: ProcessorEnvironment,
  ): Stage {
    const { log, clock, metrics, origin, dataDir, readsAgain, isOnce } = environment
    const deadLetters = onError === 'dead_letter' ? openDeadLetters(id, dataDir, environment) : undefined
    const known = { id, log, clock, metrics, origin, onError, deadLetters, readsAgain, isOnce }
    const stage = new Stage(processor, plan, known)
    if (plan.keeps) this.#keeping.add(id)
    metrics.holds = () => stage.holds()
    metrics.waiting = () => stage.waiting.events
    showUtilization(metrics, stage.busy)
    if (deadLetters) {
      const help = '1 if dead letters cannot be written. No event passes the processor until they can.'
      metrics.gauge('sluice_dead_letters_unwritable', help, () => (stage.isUnwritable ? 1 : 0))
    }
    this.#stages.set(id, stage)
    return stage
  }

  /** All stages, including those whose output has no reader, and the side outputs that have one. */
  *streams(): Iterable<Writable> {
    for (const stage of this.#stages.values()) {
      yield stage
      for (const output of stage.outputs.values()) if (output.isRead) yield output
    }
  }

  /** Starts the stages one after the other. Does not throw; `failed` is called for a stage that cannot start. */
  async start(signal: AbortSignal, failed: (id: string, error: unknown) => void): Promise<void> {
    for (const [id, stage] of this.#stages) await stage.start(signal).catch(error => failed(id, error))
  }

  async stop(deadline: AbortSignal): Promise<void> {
    for (const stage of this.#stages.values()) await stage.stop(deadline)
  }

  /** Whether the successor of a processor with the same options takes what it keeps, whatever was given back. */
  keeps(id: string): boolean {
    return this.#keeping.has(id)
  }

  /** Marks the stages as being replaced. One whose kept events nobody takes ends as if no more arrived. */
  leave(same: ReadonlySet<string>): void {
    for (const [id, stage] of this.#stages) stage.isReplaced = same.has(id) || !this.#keeping.has(id)
  }

  /** Events that wait for their decision go back to sources that read them again. The others are decided now. */
  giveBack(): void {
    for (const stage of this.#stages.values()) stage.giveBack()
  }

  destroy(): void {
    for (const stage of this.#stages.values()) stage.destroy()
  }
}
