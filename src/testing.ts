/**
 * Checks, in any test runner, whether components keep the contract on which the engine relies. Each check resolves with
 * a list of sentences, one per violation. docs/plugins.md shows how.
 */

import { fileURLToPath } from 'node:url'
import { loadModule } from './lib/load-module.js'

/** Loads a plugin in the same way as the daemon, which removes the TypeScript types. */
// biome-ignore lint/suspicious/noExplicitAny: what a module exports is not known
export function loadPlugin(file: URL | string): Promise<any> {
  return loadModule(typeof file === 'string' ? file : fileURLToPath(file))
}

export { type BatchOptions, batchOf, linesOf } from './engine/testing/batches.js'
export { checkCodec } from './engine/testing/check-codec.js'
export { checkDestination, type DestinationOutput } from './engine/testing/check-destination.js'
export { checkProcessor } from './engine/testing/check-processor.js'
export { checkSource, type SourceInput } from './engine/testing/check-source.js'
export { ManualTime, settle } from './engine/testing/manual-time.js'
export { loadedStageOf, type StageOptions, stageOf } from './engine/testing/stage.js'
