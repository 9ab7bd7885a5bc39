import { readFileSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Problem } from '../../daemon/status/problems.js'
import { shellWord } from '../../lib/shell-word.js'
import type { Finding } from './finding.js'
import { dropIn, type Unit, type User } from './unit.js'

type Advice = Pick<Problem, 'todo' | 'commands'>

/** What lets the user of the daemon use a path. */
export function adviceOn({ path, bits, isSecret }: NonNullable<Finding['access']>, user: User, unit?: Unit): Advice {
  for (let at = dirname(path), below = path; at !== below; below = at, at = dirname(at)) {
    const stats = statSync(at, { throwIfNoEntry: false })
    if (stats && !may(user, stats, 1)) return grant(at, stats, 1, user, unit)
  }
  const word = shellWord(path)
  const stats = statSync(path, { throwIfNoEntry: false })
  const isDynamic = unit?.DynamicUser === 'yes'
  if (!stats) {
    const create = `install -m 0600${isDynamic ? '' : ` -o ${user.name}`} /dev/null ${word}`
    return { todo: 'Create the file, and write its content:', commands: [create] }
  }
  if (isSecret && isDynamic) {
    const todo = 'The unit has a new user at each start. Let systemd pass the key, and use "credential: key" instead:'
    return { todo, commands: dropIn(unit, 'LoadCredential', `key:${path}`) }
  }
  if (!isSecret && bits !== 7) return grant(path, stats, stats.isDirectory() ? bits | 1 : bits, user, unit)
  const [deep, mode] = isSecret ? ['', 600] : ['-R ', 700]
  const commands = [`chown ${deep}${user.name}: ${word}`, `chmod ${mode} ${word}`]
  return { todo: 'Let it belong to the user of the daemon:', commands }
}

/** Adds the user to the group of the file if this suffices. Otherwise, gives the file to a group of the user. */
function grant(path: string, { gid, mode }: Stats, bits: number, user: User, unit: Unit | undefined): Advice {
  const own = groupName(gid)
  // Nobody is added to the group of root, which may read much more.
  if (gid !== 0 && own !== undefined && ((mode >> 3) & bits) === bits && !user.groups.includes(gid)) {
    const commands = unit ? dropIn(unit, 'SupplementaryGroups', own) : [`usermod -aG ${own} ${user.name}`]
    return { todo: `Add the daemon to the group ${own}, which has access:`, commands }
  }
  const letters = ['r', 'w', 'x'].filter((_, i) => bits & (4 >> i)).join('')
  const commands = [`chgrp ${groupOf(user, unit)} ${shellWord(path)}`, `chmod g+${letters} ${shellWord(path)}`]
  return { todo: 'Give it to a group of the daemon:', commands }
}

export const groupOf = (user: User, unit: Unit | undefined): string =>
  (unit?.SupplementaryGroups ?? '').split(' ')[0] || groupName(user.gid) || String(user.gid)

function may({ uid, gid, groups }: User, file: Stats, bits: number): boolean {
  const shift = uid === file.uid ? 6 : gid === file.gid || groups.includes(file.gid) ? 3 : 0
  return uid === 0 || ((file.mode >> shift) & bits) === bits
}

function groupName(gid: number): string | undefined {
  return new RegExp(`^([^:]+):[^:]*:${gid}:`, 'm').exec(readFileSync('/etc/group', 'utf8'))?.[1]
}
