import { basename, dirname, isAbsolute, join, resolve } from 'node:path'

type Env = Readonly<Record<string, string | undefined>>

/** The folder of a user's own configurations, by the XDG Base Directory Specification. Undefined without a home. */
export const userConfigs = (env: Env): string | undefined => folderOf(env, 'XDG_CONFIG_HOME', '.config')

/** The state of a user's own daemon, whose configuration is in `userConfigs`. Undefined for other configurations. */
export function userState(config: string, env: Env): string | undefined {
  const [configs, state] = [userConfigs(env), folderOf(env, 'XDG_STATE_HOME', '.local/state')]
  const whole = resolve(config)
  if (configs === undefined || state === undefined) return undefined
  if (whole === configs) return state
  const name = basename(whole).replace(/\.ya?ml$/, '')
  // Named like the state of the systemd unit and its instances.
  return dirname(whole) !== configs ? undefined : name === 'sluice' ? state : `${state}@${name}`
}

/** The folder for state that systemd or the user's folders give; undefined: neither does. */
export const stateFolder = (config: string, env: Env): string | undefined =>
  env.STATE_DIRECTORY?.split(':')[0] || userState(config, env)

/** The absolute path of the data folder. `given`: the option data_dir. */
export const dataDirFrom = (given: string | undefined, config: string, env: Env): string =>
  resolve(given ?? (stateFolder(config, env) || 'state'))

function folderOf(env: Env, name: string, fallback: string): string | undefined {
  const [given = '', home = ''] = [env[name], env.HOME]
  // The specification says to ignore relative paths.
  if (isAbsolute(given)) return join(given, 'sluice')
  return isAbsolute(home) ? join(home, fallback, 'sluice') : undefined
}
