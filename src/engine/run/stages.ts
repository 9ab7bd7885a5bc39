import type { Writable } from 'node:stream'
import type { Logger } from 'pino'
import type { Processor } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Origin } from '../../core/event/origin.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import type { TimerClock } from '../../lib/time.js'
import type { ComponentConfig } from '../config/load.js'
import { showUtilization } from '../flow/busy.js'
import type { ComponentCounters } from '../flow/counters.js'
import type { DiskAllowance } from '../flow/disk-allowance.js'
import type { Stage } from '../flow/stage.js'
import type { Left, WaitingBatches } from '../flow/waiting.js'
import { openDeadLetters } from './dead-letter/stock.js'
import type { SourceRun } from './source-run.js'

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

interface Staged {
  readonly stage: Stage
  readonly metrics: ComponentCounters
  readonly type: string
  readonly renamedFrom: string | undefined
}

/** A reload takes a processor that works on a batch for longer than this for one that hangs. */
const HANGS_MS = 5000

/** The processors of a pipeline and their stages. */
export class Stages {
  readonly #stages = new Map<string, Staged>()
  /** Those that have a successor with the same options. */
  #same: ReadonlySet<string> = new Set()
  /** Those whose successors take what they keep between batches. */
  readonly #keeping = new Set<string>()

  async add(
    { id, type, plan = {}, onError = 'pass', renamedFrom }: ComponentConfig,
    processor: Processor,
    environment: ProcessorEnvironment,
  ): Promise<Stage> {
    const { Stage } = await import('../flow/stage.js')
    const { log, clock, metrics, origin, dataDir, readsAgain, isOnce } = environment
    const deadLetters = onError === 'dead_letter' ? openDeadLetters(id, dataDir, environment) : undefined
    const known = { id, log, clock, metrics, origin, onError, deadLetters, readsAgain, isOnce }
    const stage = new Stage(processor, plan, known)
    if (plan.keeps) this.#keeping.add(id)
    metrics.holds = () => stage.holds()
    metrics.waiting = () => stage.waiting.events
    showUtilization(metrics, stage.busy)
    this.#stages.set(id, { stage, metrics, type, renamedFrom })
    return stage
  }

  /** All stages, including those whose output has no reader, and the side outputs that have one. */
  *streams(): Iterable<Writable> {
    for (const { stage } of this.#stages.values()) {
      yield stage
      for (const output of stage.outputs.values()) if (output.isRead) yield output
    }
  }

  /** Starts the stages one after the other. Does not throw; `failed` is called for a stage that cannot start. */
  async start(signal: AbortSignal, failed: (id: string, error: unknown) => void): Promise<void> {
    for (const [id, { stage }] of this.#stages) await stage.start(signal).catch(error => failed(id, error))
  }

  async stop(deadline: AbortSignal): Promise<void> {
    for (const { stage } of this.#stages.values()) await stage.stop(deadline)
  }

  /** Whether the successor of a processor with the same options takes what it keeps, whatever was given back. */
  keeps(id: string): boolean {
    return this.#keeping.has(id)
  }

  /**
   * Marks the stages as being replaced. One whose kept events nobody takes ends as if no more arrived. Events that wait
   * are left to a successor of the same type, whatever its options, if their source is among those that go on.
   */
  leave(same: ReadonlySet<string>, next: readonly ComponentConfig[], sources: ReadonlyMap<string, SourceRun>): void {
    this.#same = same
    for (const [id, { stage, type }] of this.#stages) {
      stage.isReplaced = same.has(id) || !this.#keeping.has(id)
      const hasHeir = next.some(to => to.type === type && [to.id, to.renamedFrom].includes(id))
      stage.endWaiting(source => hasHeir && sources.has(source))
    }
  }

  /** The processors that hang, if no other one is at work. */
  hanging(): readonly string[] {
    const working = [...this.#stages].filter(([, { stage }]) => stage.slow.workedMs !== undefined)
    return working.every(([, { stage }]) => stage.slow.workedMs! > HANGS_MS) ? working.map(([id]) => id) : []
  }

  /** Events that wait for their decision go back to sources that read them again. The others are decided now. */
  giveBack(): void {
    for (const { stage } of this.#stages.values()) stage.endWaiting(() => false)
  }

  /**
   * After the end: takes what the stages, and `deliveries`, have left to their successors. The events of a source that
   * ends or was given others back, or all of them if the run was aborted, are given back instead.
   */
  takeLeft(
    sources: ReadonlyMap<string, SourceRun>,
    isAborted: boolean,
    deliveries: readonly (readonly [string, readonly EventBatch[]])[],
  ): WaitingBatches {
    const all: [id: string, left: Left[]][] = []
    // What waits is due at once, unless the options of its successor are the same.
    for (const [id, { stage }] of this.#stages)
      all.push([id, stage.leftWaiting.map(left => (this.#same.has(id) ? left : { ...left, dueAt: 0 }))])
    for (const [id, batches] of deliveries)
      all.push([id, batches.map(batch => ({ batch, keptMs: undefined, dueAt: 0 }))])
    const batches = all.flatMap(([, left]) => left.map(({ batch }) => batch))
    const passedOn = new Set<string>()
    for (const source of new Set(batches.map(({ origin }) => origin.source))) {
      if (!isAborted && sources.get(source)?.output.repeats === false) passedOn.add(source)
      else for (const { origin, ack } of batches) if (origin.source === source) ack.settle('errored')
    }
    return new Map(all.map(([id, left]) => [id, left.filter(({ batch }) => passedOn.has(batch.origin.source))]))
  }

  /** Passes on what waits in a predecessor, after the start and before the first batch. */
  inherit(waiting: WaitingBatches, wanted: WantedNames): void {
    for (const [id, { stage, metrics, renamedFrom = id }] of this.#stages) {
      for (const { batch, ...left } of waiting.get(id) ?? waiting.get(renamedFrom) ?? []) {
        if (stage.destroyed) {
          batch.ack.settle('errored')
          continue
        }
        metrics.arrived(batch.length, batch.bytes)
        stage.inherit({ ...left, batch: batch.renewed(wanted) })
      }
    }
  }

  destroy(): void {
    for (const { stage } of this.#stages.values()) stage.destroy()
  }
}
