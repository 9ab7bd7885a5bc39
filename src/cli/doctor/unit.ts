import { existsSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { machineText } from '../../lib/files/machine-text.js'
import { textPrintedBy } from '../../lib/printed-by.js'
import { shellWord } from '../../lib/shell-word.js'
import { formatSize } from '../../lib/units.js'
import { type Facts, finding, type MachineFault } from './finding.js'

const PROPERTIES =
  'Id,LoadState,ActiveState,Result,UnitFileState,MainPID,NeedDaemonReload,ExecStart,User,DynamicUser,SupplementaryGroups,Environment,EnvironmentFiles,StateDirectory,LogsDirectory,ReadWritePaths,ProtectSystem,ProtectHome,PrivateTmp,MemoryDenyWriteExecute,LimitNOFILE,MemoryMax,TriggeredBy,Type,NotifyAccess'
/** Properties of a systemd unit with its drop-ins, as `systemctl show` prints them; empty if unknown. */
export type Unit = Readonly<Record<string, string>>

export interface User {
  readonly name: string
  readonly uid: number
  /** The first one is the user's own group. */
  readonly groups: readonly number[]
}

/** A daemon may use this much memory. */
const MEMORY_BYTES = 192 * 1024 * 1024
/** Descriptors for everything but files that are read. */
export const OTHER_FILES = 100
/** A user id that systemd may give to a dynamic user. */
const DYNAMIC = 65_519

/** Lines of the form `NAME=VALUE`, as an object. */
const variables = (lines: readonly string[]): Record<string, string> =>
  Object.fromEntries(lines.flatMap(line => [/^([^=#\s]+)=(.*)$/s.exec(line)?.slice(1) ?? []]))
const unquoted = (line: string): string => line.replace(/^(\w+=)?(["'])(.*)\2$/s, '$1$3')
const numbersIn = (text = ''): number[] => (text.match(/\b\d+\b/g) ?? []).map(Number)
export const wordsIn = (text = ''): string[] => text.split(' ').filter(Boolean)

/** The unit that runs the daemon or the service with this configuration. */
export async function unitOf(config: string, env: NodeJS.ProcessEnv): Promise<Unit | undefined> {
  const unknown = Object.fromEntries(PROPERTIES.split(',').map(name => [name, '']))
  for (const id of ['sluice', `sluice@${basename(config).replace(/\.ya?ml$/, '')}`, 'sluice-api']) {
    const text = await textPrintedBy(['systemctl', 'show', id, `--property=${PROPERTIES}`], { env })
    // The property of each file is in a line of its own.
    const EnvironmentFiles = (text.match(/(?<=^EnvironmentFiles=)\/\S+/gm) ?? []).join(' ')
    // Of this option, the property is "[unprintable]".
    const files = await textPrintedBy(['systemctl', 'cat', id], { env })
    const LoadCredential = (files.match(/(?<=^LoadCredential=)[^:\s]+:\/[^\s%]+$/gm) ?? []).join(' ')
    const unit: Unit = { ...unknown, ...variables(text.split('\n')), EnvironmentFiles, LoadCredential }
    if (unit.LoadState === 'loaded' && unit.ExecStart!.split(' ').includes(config)) return unit
  }
  return undefined
}

/** The user and the environment of a unit's process; if it does not run, those of its next one. */
export async function processOf(unit: Unit, env: NodeJS.ProcessEnv): Promise<{ user: User; env: NodeJS.ProcessEnv }> {
  const name = unit.User || 'root'
  const status = machineText(`/proc/${unit.MainPID}/status`)
  if (status !== '') {
    const ids = (field: string) => numbersIn(new RegExp(`^${field}:.*`, 'm').exec(status)?.[0])
    const user = { name, uid: ids('Uid')[1]!, groups: [ids('Gid')[1]!, ...ids('Groups')] }
    return { user, env: variables(machineText(`/proc/${unit.MainPID}/environ`).split('\0')) }
  }
  const [uid = DYNAMIC] = numbersIn(await textPrintedBy(['id', '-u', name], { env }))
  const [gid = uid, ...more] = numbersIn(await textPrintedBy(['id', '-G', name], { env }))
  const added = groupsOfMachine().filter(([group]) => wordsIn(unit.SupplementaryGroups).includes(group))
  const lines = wordsIn(unit.EnvironmentFiles).flatMap(file => machineText(file).split('\n'))
  const given = [...(unit.Environment!.match(/"[^"]*"|\S+/g) ?? []), ...lines].map(unquoted)
  const [state] = wordsIn(unit.StateDirectory).map(folder => `/var/lib/${folder}`)
  const user = { name, uid, groups: [gid, ...more, ...added.map(([, id]) => id)] }
  return { user, env: { PATH: env.PATH, ...(state && { STATE_DIRECTORY: state }), ...variables(given) } }
}

export const groupsOfMachine = (): [name: string, gid: number][] =>
  [...machineText('/etc/group').matchAll(/^([^:\n]+):[^:\n]*:(\d+):/gm)].map(([, name, gid]) => [name!, Number(gid)])

/** Commands that set an option of a unit. The name sorts behind `override.conf`, which `systemctl edit` writes. */
export function dropIn({ Id: unit }: Unit, option: string, value: string): string[] {
  const folder = `/etc/systemd/system/${unit}.d`
  const file = `${folder}/zz-doctor-${`${option}-${value}`.toLowerCase().replace(/\W+/g, '-').slice(-80)}.conf`
  const write = `printf ${shellWord(`[Service]\\n${option}=${value}\\n`)} > ${file}`
  return [`mkdir -p ${folder}`, write, 'systemctl daemon-reload', `systemctl restart ${unit}`]
}

/** Faults of the unit, and options of it that do not fit the configuration. */
export function unitFindings(unit: Unit, { files = 0, reads = [], writes = [] }: Partial<Facts> = {}): MachineFault[] {
  const { Id: id, ActiveState: state = '', MemoryMax: memory, LimitNOFILE: limit, ProtectHome = '' } = unit
  const restart = `systemctl restart ${id}`
  const read = [`journalctl -n 20 --no-pager -u ${id}`, restart]
  // A socket may start the unit.
  const isStarted = unit.TriggeredBy === '' || !/^(active|inactive)$/.test(state)
  const down = isStarted && !/^(active|reloading)$/.test(state) && `${id} is ${state} (${unit.Result})`
  const late = isStarted && unit.UnitFileState === 'disabled' && `${id} does not start with the machine`
  const old = unit.NeedDaemonReload === 'yes' && `${id} has changed, but systemd has not read it`
  const below = (...folders: string[]) => [...reads, ...writes].find(path => folders.some(one => path.startsWith(one)))
  const home = /^(yes|tmpfs)$/.test(ProtectHome) && below('/home/', '/root/', '/run/user/')
  const tmp = unit.PrivateTmp === 'yes' && below('/tmp/', '/var/tmp/')
  const few = limit !== '' && files + OTHER_FILES > Number(limit) && `is ${limit}; the sources match ${files} files`
  const isSmall = memory !== '' && Number(memory) < MEMORY_BYTES
  const small = isSmall && `is ${formatSize(Number(memory))}; a daemon needs up to ${formatSize(MEMORY_BYTES)}`
  const kills = unit.MemoryDenyWriteExecute === 'yes' && 'kills Node.js, which writes the code that it executes'
  const fails = unit.Type === 'notify' && unit.NotifyAccess !== 'all' && 'makes starts fail: a child notifies systemd'
  const writable = ['/dev', '/proc', '/sys', ...wordsIn(unit.ReadWritePaths).map(path => path.replace(/^[-+]+/, ''))]
  for (const name of wordsIn(unit.StateDirectory)) writable.push(`/var/lib/${name}`)
  for (const name of wordsIn(unit.LogsDirectory)) writable.push(`/var/log/${name}`)
  const folders = [...new Set(unit.ProtectSystem === 'strict' ? writes.map(dirname) : [])]
  const closed = folders.filter(folder => !writable.some(path => `${folder}/`.startsWith(`${path}/`)))
  type Option = [option: string, value: string, why: string | false, area?: string]
  const options: Option[] = [
    ['NotifyAccess', 'all', fails],
    ['MemoryDenyWriteExecute', 'no', kills],
    ['MemoryMax', '512M', small, 'memory'],
    ['LimitNOFILE', String(65_536 + files), few, 'descriptors'],
    ['ProtectHome', 'read-only', home ? `hides ${home} from the daemon` : false],
    ['PrivateTmp', 'no', tmp ? `hides ${tmp} from the daemon` : false],
    ...closed.map((at): Option => ['ReadWritePaths', at, `lacks ${at}, which is therefore read-only`]),
  ]
  const credentials = wordsIn(unit.LoadCredential).flatMap(credential => {
    const path = credential.slice(credential.indexOf(':') + 1)
    const what = !existsSync(path) && `LoadCredential= of ${id} names ${path}, which does not exist`
    const create = `install -m 0600 /dev/null ${shellWord(path)}`
    return finding('unit', what, 'Create the file, write its content, and start the unit:', create, restart)
  })
  return [
    ...credentials,
    ...finding('unit', down, 'Read why, start it, and check it again:', ...read),
    ...finding('unit', late, 'Enable it:', `systemctl enable ${id}`),
    ...finding('unit', old, 'Apply the change:', 'systemctl daemon-reload', restart),
    ...options.flatMap(([option, value, why, area = 'unit']) => {
      const what = why && `${option}= of ${id} ${why}`
      return finding(area, what, 'Change the unit:', ...dropIn(unit, option, value))
    }),
  ]
}
