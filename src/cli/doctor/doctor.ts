import { chownSync, closeSync, copyFileSync, mkdtempSync, openSync, readlinkSync, rmSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { thisUser } from '../../engine/run/state/exposure.js'
import { descriptorLimit } from '../../lib/files/descriptor-limit.js'
import { printable, printableJson } from '../../lib/printable.js'
import { printedBy } from '../../lib/printed-by.js'
import { counted } from '../../lib/units.js'
import { usualConfig } from '../inspect/daemon-socket.js'
import { terminalOf } from '../inspect/daemon-view.js'
import { problemLines } from '../inspect/status.js'
import { forUser } from './access.js'
import { examine } from './examine.js'
import { type Examination, type Facts, type Finding, finding } from './finding.js'
import { OTHER_FILES, printed, processOf, type Unit, type User, unitFindings, unitOf } from './unit.js'

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
  const clock = await printed(['timedatectl', 'show', '--property=NTPSynchronized', '--value'], io.env, CLOCK_MS)
  const isWrong = clock.trim() === 'no' && 'the clock is not synchronized'
  const found: Finding[] = [
    ...findings.flatMap(one => (isMadeAtStart(one.access?.path, unit) ? [] : forUser(one, user, unit))),
    ...(unit ? unitFindings(unit, facts) : descriptors(facts)),
    ...finding('clock', isWrong, 'Synchronize it:', 'timedatectl set-ntp true'),
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
        `Nothing is wrong with: ${ok.join(', ')}`,
      ].join('\n')
  io.stdout.write(`${text}\n`)
  return found.length === 0 ? EXIT.done : EXIT.failed
}

function descriptors({ files }: Pick<Facts, 'files'> = { files: 0 }): Finding[] {
  const limit = descriptorLimit()
  const what = files + OTHER_FILES > limit && `the sources match ${files} files, but this user may open ${limit}`
  return finding('descriptors', what, 'Raise the limit:', `ulimit -n ${2 * files + OTHER_FILES}`)
}

/** Runs `examine` as the user of the unit and, if the unit runs, in its view of the file systems. */
async function examineAs(user: User, env: NodeJS.ProcessEnv, unit: Unit, config: string): Promise<Examination> {
  const view = viewOf(unit)
  const folder = unit.MainPID === '0' ? await credentials(unit, user) : undefined
  const task = { user, config, env: { ...env, ...(folder && { CREDENTIALS_DIRECTORY: folder }) } }
  // Neither the arguments, which everybody can read, nor a process of root get the environment of the daemon.
  const options = { ...EXAMINE, env: { PATH: process.env.PATH, SLUICE_DOCTOR: JSON.stringify(task) } }
  const command = [process.execPath, fileURLToPath(new URL('./examine-main.js', import.meta.url))]
  const inView = view === undefined ? [] : ['nsenter', `--mount=/proc/${process.pid}/fd/${view}`]
  try {
    // A container may not let its root user enter another view.
    const output = await printedBy([...inView, ...command], options).catch(() => printedBy(command, options))
    return JSON.parse(String(output)) as Examination
  } catch (error) {
    throw new Error(`cannot check as ${user.name}, who must be able to run ${process.execPath}`, { cause: error })
  } finally {
    if (view !== undefined) closeSync(view)
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * A descriptor of the mount namespace of a unit that runs. Undefined if the process is in a user namespace of its own:
 * there it may have mounted other programs, which root must not run.
 */
function viewOf({ MainPID }: Unit): number | undefined {
  try {
    const view = openSync(`/proc/${MainPID}/ns/mnt`, 'r')
    // A process cannot return to the first user namespace, so this order is safe.
    if (readlinkSync(`/proc/${MainPID}/ns/user`) === readlinkSync('/proc/self/ns/user')) return view
    closeSync(view)
  } catch {
    // It has ended.
  }
  return undefined
}

/** Copies the credentials of a unit that does not run to a folder that only its user can read, as systemd does. */
async function credentials({ Id = '' }: Unit, { uid, groups: [gid = uid] }: User): Promise<string> {
  const folder = mkdtempSync('/run/sluice-doctor-')
  // `systemctl show` does not print credentials.
  for (const [, id = '', from = ''] of (await printed(['systemctl', 'cat', Id], process.env)).matchAll(CREDENTIAL)) {
    if (!statSync(from, { throwIfNoEntry: false })?.isFile()) continue
    copyFileSync(from, join(folder, id))
    chownSync(join(folder, id), uid, gid)
  }
  chownSync(folder, uid, gid)
  return folder
}

const CREDENTIAL = /^LoadCredential=([^:\s/]+):(\S+)/gm

/** Whether systemd gives the folder to the user when it starts the unit. */
function isMadeAtStart(path = '', unit: Unit | undefined): boolean {
  const folders = (unit?.StateDirectory ?? '').split(' ').filter(Boolean)
  // Without access to the folder, /var/lib seems to be where it would have to be created.
  return folders.some(name => path === '/var/lib' || `${path}/`.startsWith(`/var/lib/${name}/`))
}
