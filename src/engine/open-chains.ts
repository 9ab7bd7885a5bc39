import type { EngineConfig, EngineHandover } from './runtime.js'
import type { ChainEnvironment } from './workers/chain.js'
import type { Chains } from './workers/chains.js'

/** Decides what runs on worker threads; undefined: nothing does, and none of their code is loaded. */
export async function openChains(
  config: EngineConfig,
  handover: EngineHandover | undefined,
  environment: ChainEnvironment,
): Promise<Chains | undefined> {
  if (config.workers === undefined && !handover?.chains) return undefined
  const { Chains } = await import('./workers/chains.js')
  const chains = handover?.chains ?? new Chains(environment)
  // A source that runs on the main thread stays there while it runs.
  chains.plan(config, id => handover?.sources.has(id) === true)
  return chains
}
