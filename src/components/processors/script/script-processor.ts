import type { Processor, ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { BatchScope } from '../../../core/processor.js'
import type { ScriptOptions } from './options.js'
import { apply } from './script-job.js'
import { ScriptRunner } from './script-runner.js'

/** Gives events to a script in a process of its own, and carries out what it returns. */
export class ScriptProcessor implements Processor {
  readonly #runner: ScriptRunner

  /** Throws if the script cannot be loaded. */
  static async open(options: ScriptOptions, context: ProcessorContext): Promise<ScriptProcessor> {
    return new ScriptProcessor(await ScriptRunner.open(options, context))
  }

  private constructor(runner: ScriptRunner) {
    this.#runner = runner
  }

  async process(batch: EventBatch, to: Uint8Array, scope: BatchScope): Promise<void> {
    const result = await this.#runner.run(batch)
    // The batch has been settled.
    if (scope.signal.aborted) return
    apply(batch, to, scope, result)
  }

  async stop(): Promise<void> {
    this.#runner.end()
  }
}
