import { chownSync, copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { descriptorLimit } from '../../lib/files/descriptor-limit.js'
import { printable, printableJson } from '../../lib/printable.js'
import { printedBy } from '../../lib/printed-by.js'
import { counted } from '../../lib/units.js'
import { usualConfig } from '../inspect/daemon-socket.js'
import { terminalOf } from '../inspect/daemon-view.js'
import { problemLines } from '../inspect/status.js'
import { adviceOn, groupOf } from './access.js'
import { examine } from './examine.js'
import { type Examination, type Facts, type Finding, finding } from './finding.js'
import { OTHER_FILES, printed, processOf, type Unit, type User, unitFindings, unitOf } from './unit.js'

/** Without D-Bus, timedatectl answers late or never. */
const CLOCK_MS = 2000
const EXAMINE = { maxBytes: 16 * 1024 * 1024, timeoutMs: 120_000 }

/**
 * Finds what keeps the daemon from reading, delivering, or starting again on this machine. Changes nothing. As root,
 * checks permissions as the user of the unit.
 */
export async function doctor({ config, json }: { config: string | undefined; json: boolean }, io: Io): Promise<number> {
  const path = resolve(config ?? usualConfig('doctor', io.env))
  const unit = await unitOf(path, io.env)
  const { uid, gid, username } = userInfo()
  const me = { user: { name: username, uid, gid, groups: process.getgroups?.() ?? [] }, env: io.env }
  const { user, env } = unit ? await processOf(unit, io.env) : me
  const isOther = user.uid !== uid
  if (isOther && uid !== 0)
    throw new UsageError(`the daemon runs as ${user.name}: run this as root, to check what that user may do`, 'doctor')
  const { findings, areas, facts } =
    unit && isOther ? await examineAs(user, env, unit, path) : await examine(path, { ...io.env, ...env })
  const found = findings.filter(({ access }) => !isMadeAtStart(access?.path, unit))
  for (const [i, { access, ...finding }] of found.entries()) {
    const { what, commands: [first = '', ...more] = [] } = finding
    if (access) found[i] = { ...finding, what: what.replace('this user', user.name), ...adviceOn(access, user, unit) }
    // Without a group, the daemon could not read the protected configuration itself.
    else if (first.startsWith('chmod 640 '))
      found[i] = { ...finding, commands: [first.replace('chmod 640', `chgrp ${groupOf(user, unit)}`), first, ...more] }
  }
  const clock = await printed(['timedatectl', 'show', '--property=NTPSynchronized', '--value'], io.env, CLOCK_MS)
  found.push(...(unit ? unitFindings(unit, facts) : descriptors(facts)), ...clockFindings(clock))
  const checked = [...areas, 'descriptors', ...(unit ? ['unit', 'memory'] : []), ...(clock === '' ? [] : ['clock'])]
  const ok = checked.filter(area => !found.some(finding => finding.area === area))
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
  if (files + OTHER_FILES <= limit) return []
  const what = `the sources match ${files} files, but this user may open ${limit}`
  return [finding('descriptors', what, 'Raise the limit:', `ulimit -n ${2 * files + OTHER_FILES}`)]
}

function clockFindings(synchronized: string): Finding[] {
  if (synchronized.trim() !== 'no') return []
  return [finding('clock', 'the clock is not synchronized', 'Synchronize it:', 'timedatectl set-ntp true')]
}

/** Runs `examine` as the user of the unit and, if the unit runs, in its view of the file systems. */
async function examineAs(user: User, env: NodeJS.ProcessEnv, unit: Unit, path: string): Promise<Examination> {
  const isRunning = existsSync(`/proc/${unit.MainPID}/ns/mnt`)
  const credentials = isRunning
    ? undefined
    : credentialsOf(await printed(['systemctl', 'cat', unit.Id!], process.env), user)
  try {
    const main = fileURLToPath(new URL('./examine-main.js', import.meta.url))
    const command = [process.execPath, main, JSON.stringify([path, user])]
    const options = { ...EXAMINE, env: { ...env, ...(credentials && { CREDENTIALS_DIRECTORY: credentials }) } }
    const inView = [...(isRunning ? ['nsenter', `--mount=/proc/${unit.MainPID}/ns/mnt`] : []), ...command]
    // A container may not let its root user enter another view.
    return JSON.parse(String(await printedBy(inView, options).catch(() => printedBy(command, options)))) as Examination
  } finally {
    if (credentials !== undefined) rmSync(credentials, { recursive: true, force: true })
  }
}

/** Copies the credentials of a unit that does not run to a folder that only its user can read, as systemd does. `unit`: its text. */
function credentialsOf(unit: string, { uid, gid }: User): string {
  const folder = mkdtempSync(join(existsSync('/run') ? '/run' : tmpdir(), 'sluice-doctor-'))
  for (const [, id = '', from = ''] of unit.matchAll(/^LoadCredential=([^:\s/]+):(\S+)/gm)) {
    if (!existsSync(from)) continue
    copyFileSync(from, join(folder, id))
    chownSync(join(folder, id), uid, gid)
  }
  chownSync(folder, uid, gid)
  return folder
}

/** Whether systemd gives the folder to the user when it starts the unit. */
function isMadeAtStart(path = '', unit: Unit | undefined): boolean {
  const folders = (unit?.StateDirectory ?? '').split(' ').filter(Boolean)
  // Without access to the folder, /var/lib seems to be where it would have to be created.
  return folders.some(name => path === '/var/lib' || `${path}/`.startsWith(`/var/lib/${name}/`))
}
