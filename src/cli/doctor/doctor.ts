import { existsSync, openSync, readlinkSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { usualConfig } from '../../daemon/admin/daemon-socket.js'
import { terminalOf } from '../../daemon/admin/daemon-view.js'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { thisUser } from '../../engine/run/state/exposure.js'
import { descriptorLimit } from '../../lib/files/descriptor-limit.js'
import { printable, printableJson } from '../../lib/printable.js'
import { printedBy, textPrintedBy } from '../../lib/printed-by.js'
import { counted } from '../../lib/units.js'
import { problemLines } from '../inspect/status.js'
import { forUser } from './access.js'
import { examine } from './examine.js'
import { type Examination, finding, type MachineFault } from './finding.js'
import { OTHER_FILES, processOf, type Unit, type User, unitFindings, unitOf, wordsIn } from './unit.js'

/** Without D-Bus, timedatectl answers late or never. */
const CLOCK_MS = 2000
const EXAMINE = { maxBytes: 16 * 1024 * 1024, timeoutMs: 120_000 }
const CONFIGURED = ['paths', 'servers', 'certificates', 'leftovers', 'inotify', 'disk', 'descriptors']

/**
 * Finds what keeps the daemon from reading, delivering, or starting again on this machine. Changes nothing. As root,
 * checks permissions as the user of the unit.
 */
export async function doctor({ config, json }: { config: string | undefined; json: boolean }, io: Io): Promise<number> {
  const path = resolve(config ?? usualConfig('doctor', io.env))
  const unit = await unitOf(path, io.env)
  const { uid, groups } = thisUser() ?? { uid: 0, groups: [0] }
  const me = { user: { name: io.env.USER ?? String(uid), uid, groups }, env: io.env }
  const { user, env } = unit ? await processOf(unit, io.env) : me
  const isOther = user.uid !== uid
  if (isOther && uid !== 0)
    throw new UsageError(`the daemon runs as ${user.name}: run this as root, to check what that user may do`, 'doctor')
  const examined = unit && isOther ? examineAs(user, env, unit, path) : examine(path, { ...io.env, ...env })
  const { findings, facts } = await examined
  const asked = ['timedatectl', 'show', '--property=NTPSynchronized', '--value']
  const clock = await textPrintedBy(asked, { timeoutMs: CLOCK_MS, env: io.env })
  const wrong = clock.trim() === 'no' && 'the clock is not synchronized'
  const [files, limit] = [facts?.files ?? 0, descriptorLimit()]
  const few = files + OTHER_FILES > limit && `the sources match ${files} files, but this user may open ${limit}`
  const found: MachineFault[] = [
    ...findings.filter(one => !unit || !isMadeAtStart(one, unit)).map(one => forUser(one, user, unit)),
    ...(unit ? unitFindings(unit, facts) : finding('descriptors', few, 'Raise it:', `ulimit -n ${limit + files}`)),
    ...finding('clock', wrong, 'Synchronize it:', 'timedatectl set-ntp true'),
  ]
  const more = [...(facts ? CONFIGURED : []), ...(unit ? ['unit', 'memory'] : []), ...(clock === '' ? [] : ['clock'])]
  const ok = ['configuration', ...more].filter(area => !found.some(finding => finding.area === area))
  const { width, color } = terminalOf(io)
  const text = json
    ? printableJson(JSON.stringify({ config: path, unit: unit?.Id, findings: found, ok }, null, 2))
    : [
        printable(`${path}${unit ? ` (${unit.Id})` : ''}: ${counted(found.length, 'finding')}`),
        ...problemLines(found, '!', width, line => (color ? `\x1b[31m${line}\x1b[0m` : line)),
        ...(found.length > 0 ? [''] : []),
        ok.length > 0 ? `Nothing is wrong with: ${ok.join(', ')}` : 'Nothing else could be checked.',
      ].join('\n')
  io.stdout.write(`${text}\n`)
  return found.length === 0 ? EXIT.done : EXIT.failed
}

/** Runs `examine` as the user of the unit and, if the unit runs, in its view of the file systems. */
async function examineAs(user: User, env: NodeJS.ProcessEnv, { MainPID }: Unit, path: string): Promise<Examination> {
  const its = `/proc/${MainPID}/ns`
  const view = existsSync(`${its}/mnt`) ? openSync(`${its}/mnt`, 'r') : undefined
  // In a user namespace of its own, the process may have mounted other programs, which root must not run. It cannot
  // return from there, so the check is valid for the view that is open.
  const isSafe = view !== undefined && readlinkSync(`${its}/user`) === readlinkSync('/proc/self/ns/user')
  const inView = isSafe ? ['nsenter', `--mount=/proc/${process.pid}/fd/${view}`] : []
  const command = [process.execPath, fileURLToPath(new URL('./examine-main.js', import.meta.url))]
  // Neither the arguments, which everybody can read, nor a process of root get the environment of the daemon.
  const options = { ...EXAMINE, env: { PATH: process.env.PATH, EXAMINED: JSON.stringify({ user, env, path }) } }
  try {
    // A container may not let its root user enter another view.
    const output = await printedBy([...inView, ...command], options).catch(() => printedBy(command, options))
    return JSON.parse(String(output)) as Examination
  } catch (cause) {
    throw new Error(`cannot check as ${user.name}, who must be able to run ${process.execPath}`, { cause })
  }
}

/** Whether a finding does not apply, because systemd gives the folder or the credentials to the unit when it starts. */
function isMadeAtStart({ access, what }: MachineFault, unit: Unit): boolean {
  if (unit.MainPID === '0' && what.includes('CREDENTIALS_DIRECTORY is not set')) return true
  const path = access?.path ?? ''
  // Without access to the folder, /var/lib seems to be where it would have to be created.
  return wordsIn(unit.StateDirectory).some(name => path === '/var/lib' || `${path}/`.startsWith(`/var/lib/${name}/`))
}
