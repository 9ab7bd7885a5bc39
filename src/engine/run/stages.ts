import type { Processor } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { TimerClock } from '../../lib/time.js'
import type { ComponentConfig } from '../config/load.js'
import type { StageContext } from '../flow/stage.js'
import { showUtilization } from '../flow/utilization.js'
import type { WaitedEvents, WaitingBatches } from '../flow/waiting.js'
import { type DeadLetterEnvironment, openDeadLetters } from './dead-letter/queue.js'
import { ProcessorRun } from './processor-run.js'
import type { EngineConfig } from './runtime.js'
import type { SourceRun } from './source-run.js'

export interface ProcessorEnvironment
  extends DeadLetterEnvironment,
    Pick<StageContext, 'clock' | 'origin' | 'readsAgain' | 'isOnce'> {
  readonly clock: TimerClock
  readonly dataDir: string
}

/**
 * If a processor holds one batch for longer than this, it counts as stuck during a reload, also if it waits for a server.
 * The new configuration may name a server that replies.
 */
const HANGS_MS = 5000

/**
 * Where a batch from an ended stage goes: to a successor (`passed_on`), back to its sources (`given_back`), or to both.
 * `both` is used if some of its sources can send events again and others cannot.
 */
export type Fate = 'passed_on' | 'given_back' | 'both'

export class Stages {
  readonly #runs = new Map<string, ProcessorRun>()
  readonly #givenBack = new Set<EventBatch>()
  /** Processors that have a successor with the same options. */
  #same: ReadonlySet<string> = new Set()

  async create(
    config: ComponentConfig,
    processor: Processor,
    environment: ProcessorEnvironment,
    isRead: (output: string) => boolean,
  ): Promise<ProcessorRun> {
    const { Stage } = await import('../flow/stage.js')
    const { id, plan = {}, onError = 'pass' } = config
    const { metrics, dataDir } = environment
    const deadLetters = onError === 'dead_letter' ? openDeadLetters(id, dataDir, environment) : undefined
    const stage = new Stage(processor, plan, { ...environment, id, onError, deadLetters })
    metrics.holds = () => stage.holds()
    metrics.waiting = () => stage.waiting.events
    showUtilization(metrics, stage.busy)
    const run = new ProcessorRun(config, processor, stage, metrics, isRead)
    this.#runs.set(id, run)
    return run
  }

  all(): ProcessorRun[] {
    return [...this.#runs.values()]
  }

  /** Starts the processors one after the other. Does not throw; calls `failed` for each one that cannot start. */
  async start(
    signal: AbortSignal,
    failed: (id: string, error: unknown) => void,
    dueAt?: ReadonlyMap<string, number>,
  ): Promise<void> {
    for (const [id, { stage }] of this.#runs)
      await stage.start(signal, dueAt?.get(id)).catch(error => failed(id, error))
  }

  /** Runs until every processor has ended. */
  async run(): Promise<void> {
    await Promise.all([...this.#runs.values()].map(run => run.run()))
  }

  async stop(deadline: AbortSignal): Promise<void> {
    for (const { stage } of this.#runs.values()) await stage.stop(deadline)
  }

  /**
   * Whether a processor keeps events between batches. A successor with the same options gets the kept events, even if
   * events were given back after the processor saw them.
   */
  keeps(id: string): boolean {
    return this.#runs.get(id)?.config.plan?.keeps === true
  }

  /** Prepares for a replacement. `sources` are those that keep running. */
  leave(succeeded: ReadonlySet<string>, next: EngineConfig, sources: ReadonlyMap<string, SourceRun>): void {
    this.#same = succeeded
    for (const [id, { config, stage }] of this.#runs) {
      // If a processor keeps events but has no successor for them, it ends as if no more events arrived.
      stage.isReplaced = succeeded.has(id) || !this.keeps(id)
      // A successor of the same type takes waiting events, even if its options differ.
      const hasSuccessor = next.processors.some(to => to.type === config.type && [to.id, to.renamedFrom].includes(id))
      stage.endWaiting(source => hasSuccessor && sources.has(source))
    }
  }

  /** The stuck processors, if no other processor works on a batch. */
  hanging(): readonly string[] {
    const working = this.all().filter(({ stage }) => stage.slow.heldMs !== undefined)
    return working.every(({ stage }) => stage.slow.heldMs! > HANGS_MS) ? working.map(({ config }) => config.id) : []
  }

  /** Gives back waiting events whose sources read them again. All other waiting events are decided now. */
  giveBack(): void {
    for (const { stage } of this.#runs.values()) stage.endWaiting(() => false)
  }

  /**
   * Call it after all stages have ended. Takes the events that stages and `deliveries` have left for their successors.
   * If a batch from several sources is given back, that changes the fate of other batches from these sources.
   */
  takeLeft(
    fateOf: (batch: EventBatch) => Fate,
    deliveries: readonly (readonly [string, readonly EventBatch[]])[],
  ): WaitingBatches {
    const all: [id: string, left: WaitedEvents[]][] = []
    // If the successor has other options, waiting events are due immediately.
    for (const [id, { stage }] of this.#runs)
      all.push([id, stage.leftToSuccessor.map(left => (this.#same.has(id) ? left : { ...left, dueAt: 0 }))])
    for (const [id, batches] of deliveries)
      all.push([id, batches.map(batch => ({ batch, keptMs: undefined, dueAt: 0 }))])
    const batches = all.flatMap(([, left]) => left.map(({ batch }) => batch))
    const isHeld = (batch: EventBatch) => !this.#givenBack.has(batch)
    for (let isChanged = true; isChanged; ) {
      isChanged = false
      for (const batch of batches.filter(isHeld)) {
        const fate = fateOf(batch)
        if (fate === 'given_back') {
          this.#givenBack.add(batch)
          batch.ack.settle('errored')
          isChanged = true
        } else if (fate === 'both' && !batch.ack.isErrored) {
          batch.ack.willError()
          isChanged = true
        }
      }
    }
    return new Map(all.map(([id, left]) => [id, left.filter(({ batch }) => isHeld(batch))]))
  }

  /** Passes on events that waited in a predecessor. Call it after the start and before the first batch. */
  inherit(waiting: WaitingBatches): void {
    for (const [id, { stage, counters, config }] of this.#runs) {
      const { renamedFrom = id } = config
      for (const left of waiting.get(id) ?? waiting.get(renamedFrom) ?? []) {
        if (stage.destroyed) {
          left.batch.ack.settle('errored')
          continue
        }
        left.batch.renew()
        counters.arrived(left.batch.length, left.batch.bytes)
        stage.inherit(left)
      }
    }
  }

  destroy(): void {
    for (const { stage } of this.#runs.values()) stage.destroy()
  }
}
