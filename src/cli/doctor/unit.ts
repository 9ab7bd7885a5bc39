import { readFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { printedBy } from '../../lib/printed-by.js'
import { shellWord } from '../../lib/shell-word.js'
import { formatSize } from '../../lib/units.js'
import { type Facts, type Finding, finding } from './finding.js'

const PROPERTIES =
  'Id LoadState ActiveState Result UnitFileState MainPID NeedDaemonReload ExecStart User DynamicUser SupplementaryGroups Environment EnvironmentFiles StateDirectory LogsDirectory ReadWritePaths ProtectSystem ProtectHome PrivateTmp MemoryDenyWriteExecute LimitNOFILE MemoryMax TriggeredBy Type NotifyAccess'
/** Properties of a systemd unit with its drop-ins, as `systemctl show` prints them; empty if unknown. */
export type Unit = Readonly<Record<string, string>>

export interface User {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly groups: readonly number[]
}

const MAX_BYTES = 1024 * 1024
/** A daemon may use this much memory. */
const MEMORY_BYTES = 192 * 1024 * 1024
/** Descriptors for everything but files that are read. */
export const OTHER_FILES = 100
/** A user id that systemd may give to a dynamic user. */
const DYNAMIC = 65_519

/** The output of a program; empty if it fails. */
export const printed = (command: readonly string[], env: NodeJS.ProcessEnv, timeoutMs = 10_000): Promise<string> =>
  printedBy(command, { maxBytes: MAX_BYTES, timeoutMs, env }).then(String, () => '')

/** `NAME=VALUE` as an object. Values may be in quotes. */
const variables = (lines: readonly string[]): Record<string, string> =>
  Object.fromEntries(lines.flatMap(line => [/^["']?([^=#\s]+)=["']?(.*?)["']?$/.exec(line)?.slice(1) ?? []]))

/** The unit that runs the daemon or the service with this configuration. */
export async function unitOf(config: string, env: NodeJS.ProcessEnv): Promise<Unit | undefined> {
  const names = PROPERTIES.split(' ')
  const unknown = Object.fromEntries(names.map(name => [name, '']))
  for (const id of ['sluice', `sluice@${basename(config).replace(/\.ya?ml$/, '')}`, 'sluice-api']) {
    const text = await printed(['systemctl', 'show', id, `--property=${names.join(',')}`], env)
    const unit: Unit = { ...unknown, ...variables(text.split('\n')) }
    if (unit.LoadState === 'loaded' && unit.ExecStart!.split(' ').includes(resolve(config))) return unit
  }
  return undefined
}

/** The user and the environment of a unit's process; if it does not run, those of its next one. */
export async function processOf(unit: Unit, env: NodeJS.ProcessEnv): Promise<{ user: User; env: NodeJS.ProcessEnv }> {
  const name = unit.User || 'root'
  const status = contentOf(`/proc/${unit.MainPID}/status`)
  if (status !== '') {
    const ids = (field: string) =>
      (new RegExp(`^${field}:(.*)`, 'm').exec(status)?.[1] ?? '').trim().split(/\s+/).map(Number)
    const user = { name, uid: ids('Uid')[1]!, gid: ids('Gid')[1]!, groups: ids('Groups') }
    return { user, env: variables(contentOf(`/proc/${unit.MainPID}/environ`).split('\0')) }
  }
  const numbers = async (...command: string[]) => ((await printed(command, env)).match(/\b\d+\b/g) ?? []).map(Number)
  const [uid = DYNAMIC] = await numbers('id', '-u', name)
  const own = await numbers('id', '-G', name)
  const known = contentOf('/etc/group')
    .split('\n')
    .map(line => line.split(':'))
  const more = known.filter(([group]) => unit.SupplementaryGroups!.split(' ').includes(group!) && group !== '')
  const groups = [...own, ...more.map(([, , id]) => Number(id))]
  const files = unit.EnvironmentFiles!.split(' ').filter(file => file.startsWith('/'))
  const lines = files.flatMap(file => contentOf(file).split('\n'))
  const state = unit.StateDirectory && { STATE_DIRECTORY: join('/var/lib', unit.StateDirectory.split(' ')[0]!) }
  const given = variables([...(unit.Environment!.match(/"[^"]*"|\S+/g) ?? []), ...lines])
  return { user: { name, uid, gid: own[0] ?? uid, groups }, env: { PATH: env.PATH, ...state, ...given } }
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** Commands that set an option of a unit. The name sorts behind `override.conf`, which `systemctl edit` writes. */
export function dropIn({ Id: unit }: Unit, option: string, value: string): string[] {
  const folder = `/etc/systemd/system/${unit}.d`
  const file = `${folder}/zz-doctor-${`${option}-${value}`.toLowerCase().replace(/\W+/g, '-').slice(-80)}.conf`
  const write = `printf ${shellWord(`[Service]\\n${option}=${value}\\n`)} > ${file}`
  return [`mkdir -p ${folder}`, write, 'systemctl daemon-reload', `systemctl restart ${unit}`]
}

/** Faults of the unit, and options of it that do not fit the configuration. */
export function unitFindings(unit: Unit, facts: Facts | undefined): Finding[] {
  const { Id: id } = unit
  const found: Finding[] = []
  const add = (what: string, todo: string, ...commands: string[]) =>
    found.push(finding('unit', what, todo, ...commands))
  const set = (option: string, value: string, what: string, area = 'unit') =>
    found.push(finding(area, `${option}= of ${id} ${what}`, 'Change the unit:', ...dropIn(unit, option, value)))
  const restart = `systemctl restart ${id}`
  // A socket may start the unit.
  const isStarted = unit.TriggeredBy === '' || !/^(active|inactive)$/.test(unit.ActiveState!)
  if (unit.ActiveState !== 'active' && isStarted)
    add(
      `${id} is ${unit.ActiveState} (${unit.Result})`,
      'Read why, and start it:',
      `journalctl -n 20 --no-pager -u ${id}`,
      restart,
    )
  if (unit.UnitFileState === 'disabled' && isStarted)
    add(`${id} does not start with the machine`, 'Enable it:', `systemctl enable ${id}`)
  if (unit.NeedDaemonReload === 'yes')
    add(`${id} has changed, but systemd has not read it`, 'Apply the change:', 'systemctl daemon-reload', restart)
  if (unit.Type === 'notify' && unit.NotifyAccess !== 'all')
    set('NotifyAccess', 'all', 'makes each start fail, because a child process notifies systemd')
  if (unit.MemoryDenyWriteExecute === 'yes')
    set('MemoryDenyWriteExecute', 'no', 'kills Node.js, which writes the code that it executes')
  const memory = Number(unit.MemoryMax)
  if (unit.MemoryMax && memory < MEMORY_BYTES)
    set('MemoryMax', '512M', `is ${formatSize(memory)}; a daemon needs up to ${formatSize(MEMORY_BYTES)}`, 'memory')
  if (!facts) return found
  const { files, reads, writes } = facts
  if (unit.LimitNOFILE && files + OTHER_FILES > Number(unit.LimitNOFILE))
    set(
      'LimitNOFILE',
      String(Math.max(65_536, 2 * files)),
      `is ${unit.LimitNOFILE}, but the sources match ${files} files`,
      'descriptors',
    )
  const below = (folders: readonly string[]) =>
    [...reads, ...writes].find(path => folders.some(folder => path.startsWith(folder)))
  const home = below(['/home/', '/root/', '/run/user/'])
  if (home !== undefined && /^(yes|tmpfs)$/.test(unit.ProtectHome!))
    set('ProtectHome', 'read-only', `hides ${home} from the daemon`)
  const tmp = below(['/tmp/', '/var/tmp/'])
  if (tmp !== undefined && unit.PrivateTmp === 'yes') set('PrivateTmp', 'no', `hides ${tmp} from the daemon`)
  const placed = (folder: string, names: string) =>
    names
      .split(' ')
      .filter(Boolean)
      .map(name => join(folder, name))
  const writable = [
    ...placed('/', unit.ReadWritePaths!.replace(/(^| )[-+]+/g, '$1')),
    ...placed('/var/lib', unit.StateDirectory!),
    ...placed('/var/log', unit.LogsDirectory!),
  ]
  for (const folder of new Set(unit.ProtectSystem === 'strict' ? writes.map(path => dirname(path)) : []))
    if (!writable.some(path => `${folder}/`.startsWith(`${path}/`)))
      set('ReadWritePaths', folder, `does not have ${folder}, which is therefore read-only for the daemon`)
  return found
}
