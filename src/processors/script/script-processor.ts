import type { Processor, ProcessorContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Fields } from '../../core/event/event.js'
import type { BatchScope } from '../../core/processor.js'
import type { ScriptOptions } from './options.js'
import { applyChanges } from './script-job.js'
import { ScriptRunner } from './script-runner.js'

/** Gives events to a script in a thread of its own, and carries out what it returns. */
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
    to.set(result.to)
    applyChanges(batch, result)
    for (const [i, texts] of result.several)
      scope.replace(
        i,
        texts.map(text => JSON.parse(text) as Fields),
      )
    for (const [i, error] of result.errors) scope.because(i, error)
  }

  async stop(): Promise<void> {
    this.#runner.end()
  }
}
