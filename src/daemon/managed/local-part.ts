import { loadQuickly } from '../../components/named.js'
import { type Config, type LoadOptions, loadConfig } from '../../engine/config/load.js'
import { readWithPlugins } from '../../engine/config/plugins/read-plugins.js'
import { ManagedConfig } from '../../engine/config/published/managed-config.js'
import type { ConfigSource } from '../../engine/config/yaml/files.js'
import { type CachedRevision, cachedRevision } from '../fleet/revision-cache.js'

/**
 * The configuration of a daemon. If the file is the local part of a managed daemon, adds the revision that this daemon
 * ran last.
 */
export async function loadDaemonConfig(path: string, env: NodeJS.ProcessEnv): Promise<Config> {
  const source = await readWithPlugins(path, env)
  const config = await loadQuickly(source, { env, localPart: true })
  if (!config.isLocalPart) return config
  const { components } = await import('../../components/list.js')
  const options = { env, components }
  const cached = await cachedRevision(config.dataDir)
  if (cached) return completed(source, cached, options)
  if (config.destinations.length > 0) return loadConfig(source, options)
  throw new Error(
    `${path} is the local part of a managed daemon, and there is no published revision in ${config.dataDir}: start the daemon first`,
  )
}

/** The local part, completed with a revision. Throws ConfigError. */
export function completed(
  source: ConfigSource,
  { pipeline, revision, config }: CachedRevision,
  options: Pick<LoadOptions, 'env' | 'components' | 'onThisMachine'>,
): Config {
  return new ManagedConfig(source, options).with(config, `pipeline ${pipeline}, revision ${revision}`)
}
