import { constants } from 'node:fs'
import { dirname } from 'node:path'
import { realpathSync, statSync } from '../../lib/files/disk/disk.js'
import { refusalOf } from '../../lib/files/refusal.js'
import { shellWord } from '../../lib/shell-word.js'
import type { MachineFault } from './finding.js'
import { dropIn, groupsOfMachine, type Unit, type User, wordsIn } from './unit.js'

const NEW_GROUP = 'sluice-logs'

/** Completes a finding about a path with what lets the user of the daemon use it. */
export function forUser({ access, ...found }: MachineFault, user: User, unit: Unit | undefined): MachineFault {
  const { what, commands: [first = '', ...more] = [] } = found
  if (access) {
    const [todo, ...commands] = adviceOn(access, what, user, unit)
    return { ...found, what: what.replace('this user', user.name), todo, commands }
  }
  if (!first.startsWith('chmod 640 ')) return found
  // Without a group, the daemon could not read the protected configuration itself.
  return { ...found, commands: [...giveGroup(first.replace('chmod 640 ', ''), user, unit), first, ...more] }
}

type Advice = [todo: string, ...commands: string[]]

function adviceOn(access: NonNullable<MachineFault['access']>, what: string, user: User, unit?: Unit): Advice {
  // Commands name the target of a link, since chmod and chgrp would follow the link without a word.
  const path = modeOf(access.path) ? realpathSync(access.path) : access.path
  const word = shellWord(path)
  const isDynamic = unit?.DynamicUser === 'yes'
  if (what.includes('(EROFS)')) {
    // Here, outside of the unit, its options do not apply.
    if (unit && refusalOf(path, constants.W_OK) !== 'EROFS')
      return ['Let the unit write there:', ...dropIn(unit, 'ReadWritePaths', path)]
    return ['Mount the file system for writing, or set another path:', `mount -o remount,rw "$(stat -c %m ${word})"`]
  }
  for (let at = dirname(path), below = path; at !== below; below = at, at = dirname(at)) {
    const { uid = -1, gid = -1, mode = 1 } = modeOf(at) ?? {}
    const shift = uid === user.uid ? 6 : user.groups.includes(gid) ? 3 : 0
    if (user.uid !== 0 && !((mode >> shift) & 1)) return grant(at, 1, user, unit)
  }
  const file = modeOf(path)
  const create = `install -m 0600${isDynamic ? '' : ` -o ${user.name}`} /dev/null ${word}`
  if (!file) return ['Create the file, and write its content:', create]
  if (access.isSecret && isDynamic) {
    const given = wordsIn(unit.LoadCredential).find(text => text.endsWith(`:${access.path}`))
    if (given)
      return [`The unit passes the key: use "credential: ${given.split(':')[0]}":`, `systemctl restart ${unit.Id}`]
    const todo = 'The unit has a new user at each start. Let systemd pass the key, and use "credential: key" instead:'
    return [todo, ...dropIn(unit, 'LoadCredential', `key:${path}`)]
  }
  if (!access.isSecret && access.bits !== 7) return grant(path, access.bits | Number(file.isDirectory()), user, unit)
  const [deep, mode] = access.isSecret ? ['', 600] : ['-R ', 700]
  const own = `chown ${deep}${user.name}: ${word}`
  return ['Let it belong to the user of the daemon:', own, `chmod ${mode} ${word}`]
}

/** Adds the user to the group of the file if this suffices. Otherwise, gives the file to a group of the user. */
function grant(path: string, bits: number, user: User, unit: Unit | undefined): Advice {
  const { gid, mode } = modeOf(path)!
  const own = nameOf(gid)
  const letters = ['r', 'w', 'x'].filter((_, i) => bits & (4 >> i)).join('')
  const commands = [...giveGroup(shellWord(path), user, unit), `chmod g+${letters} ${shellWord(path)}`]
  // Nobody is added to the group of root, which may read much more.
  if (gid === 0 || own === undefined || ((mode >> 3) & bits) !== bits || user.groups.includes(gid))
    return ['Give it to a group of the daemon:', ...commands]
  const join = unit ? dropIn(unit, 'SupplementaryGroups', own) : [`usermod -aG ${own} ${user.name}`]
  return [`Add the daemon to the group ${own}, which has access to ${path}:`, ...join]
}

/** Gives a path to a group of the user. A dynamic user gets a group first, because its own one changes at each start. */
function giveGroup(word: string, { groups: [gid = 0] }: User, unit: Unit | undefined): string[] {
  const group = unit?.SupplementaryGroups?.split(' ')[0] || nameOf(gid)
  if (group || unit?.DynamicUser !== 'yes') return [`chgrp ${group ?? gid} ${word}`]
  return [`groupadd -fr ${NEW_GROUP}`, `chgrp ${NEW_GROUP} ${word}`, ...dropIn(unit, 'SupplementaryGroups', NEW_GROUP)]
}

const nameOf = (gid: number): string | undefined => groupsOfMachine().find(([, id]) => id === gid)?.[0]
const modeOf = (path: string) => statSync(path, { throwIfNoEntry: false })
