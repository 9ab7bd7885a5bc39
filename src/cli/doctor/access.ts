import { dirname } from 'node:path'
import type { Problem } from '../../daemon/status/problems.js'
import { realpathSync, statSync } from '../../lib/files/disk/disk.js'
import { shellWord } from '../../lib/shell-word.js'
import type { Finding } from './finding.js'
import { dropIn, groupsOfMachine, type Unit, type User } from './unit.js'

type Advice = Pick<Problem, 'todo' | 'commands'>

/** Completes a finding about a path with what lets the user of the daemon use it. */
export function forUser({ access, ...found }: Finding, user: User, unit: Unit | undefined): Finding {
  const { what, commands: [first = '', ...more] = [] } = found
  if (access) return { ...found, what: what.replace('this user', user.name), ...adviceOn(access, what, user, unit) }
  if (!first.startsWith('chmod 640 ')) return found
  // Without a group, the daemon could not read the protected configuration itself.
  return { ...found, commands: [first.replace('chmod 640', `chgrp ${groupOf(user, unit)}`), first, ...more] }
}

function adviceOn(access: NonNullable<Finding['access']>, what: string, user: User, unit: Unit | undefined): Advice {
  const { bits, isSecret } = access
  const path = realPath(access.path)
  const word = shellWord(path)
  if (unit && what.includes('(EROFS)'))
    return { todo: 'Let the unit write there:', commands: dropIn(unit, 'ReadWritePaths', path) }
  for (let at = dirname(path), below = path; at !== below; below = at, at = dirname(at))
    if (modeOf(at) && !may(user, at, 1)) return grant(at, 1, user, unit)
  const isDynamic = unit?.DynamicUser === 'yes'
  if (!modeOf(path)) {
    const create = `install -m 0600${isDynamic ? '' : ` -o ${user.name}`} /dev/null ${word}`
    return { todo: 'Create the file, and write its content:', commands: [create] }
  }
  if (isSecret && isDynamic) {
    const todo = 'The unit has a new user at each start. Let systemd pass the key, and use "credential: key" instead:'
    return { todo, commands: dropIn(unit, 'LoadCredential', `key:${path}`) }
  }
  if (!isSecret && bits !== 7) return grant(path, modeOf(path)?.isDirectory() ? bits | 1 : bits, user, unit)
  const [deep, mode] = isSecret ? ['', 600] : ['-R ', 700]
  const commands = [`chown ${deep}${user.name}: ${word}`, `chmod ${mode} ${word}`]
  return { todo: 'Let it belong to the user of the daemon:', commands }
}

/** Adds the user to the group of the file if this suffices. Otherwise, gives the file to a group of the user. */
function grant(path: string, bits: number, user: User, unit: Unit | undefined): Advice {
  const { gid, mode } = modeOf(path)!
  const own = nameOf(gid)
  // Nobody is added to the group of root, which may read much more.
  if (gid !== 0 && own !== undefined && ((mode >> 3) & bits) === bits && !user.groups.includes(gid)) {
    const commands = unit ? dropIn(unit, 'SupplementaryGroups', own) : [`usermod -aG ${own} ${user.name}`]
    return { todo: `Add the daemon to the group ${own}, which has access to ${path}:`, commands }
  }
  const letters = ['r', 'w', 'x'].filter((_, i) => bits & (4 >> i)).join('')
  const commands = [`chgrp ${groupOf(user, unit)} ${shellWord(path)}`, `chmod g+${letters} ${shellWord(path)}`]
  return { todo: 'Give it to a group of the daemon:', commands }
}

export const groupOf = ({ groups: [gid = 0] }: User, unit: Unit | undefined): string =>
  (unit?.SupplementaryGroups ?? '').split(' ')[0] || nameOf(gid) || String(gid)

function may({ uid, groups }: User, path: string, bits: number): boolean {
  const file = modeOf(path)!
  const shift = uid === file.uid ? 6 : groups.includes(file.gid) ? 3 : 0
  return uid === 0 || ((file.mode >> shift) & bits) === bits
}

const nameOf = (gid: number): string | undefined => groupsOfMachine().find(([, id]) => id === gid)?.[0]
const modeOf = (path: string) => statSync(path, { throwIfNoEntry: false })

/** Commands name the target of a link, since chmod and chgrp would follow the link without a word. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
