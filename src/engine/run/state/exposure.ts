import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { realpathSync, statSync } from '../../../lib/files/disk/disk.js'

/** Checks that other users cannot replace the daemon's files in a data folder. */

interface User {
  readonly uid: number
  readonly groups: readonly number[]
}

const [OTHERS, GROUP, STICKY] = [0o002, 0o020, 0o1000]

/**
 * Says which users besides `user` can change the contents of `folder`, and what to do. Undefined if none can, or if the
 * folder cannot be examined. If `user` is undefined, the folder's owner counts as the daemon's user. Root is ignored.
 */
export function exposureOf(folder: string, user: User | undefined): string | undefined {
  try {
    const whole = realpathSync(folder)
    const { uid, gid, mode } = statSync(whole)
    if (user && uid !== user.uid && uid !== 0)
      return `${folder} belongs to another user (uid ${uid}), who can replace the files in it: run the daemon as that user, or chown ${folder} to the user of the daemon`
    if (mode & OTHERS) return `every user of this machine can write to ${folder}: chmod 700 ${folder}`
    if (user && mode & GROUP && gid !== 0 && !user.groups.includes(gid))
      return `a group that the daemon is not in (gid ${gid}) can write to ${folder}: chmod 700 ${folder}`
    for (let at = dirname(whole), below = whole; at !== below; below = at, at = dirname(at)) {
      const { mode } = statSync(at)
      // In a sticky folder such as /tmp, other users can neither rename nor remove the folder `below`.
      if (mode & OTHERS && !(mode & STICKY))
        return `every user of this machine can write to ${at} and put another folder in the place of ${below}: chmod o-w ${at}, or set another data_dir`
    }
    return undefined
  } catch {
    return undefined
  }
}

/** The user of this process; undefined on a system without user ids. */
export function thisUser(): User | undefined {
  const uid = process.geteuid?.()
  return uid === undefined ? undefined : { uid, groups: [process.getegid!(), ...process.getgroups!()] }
}

export function warnIfExposed(log: Logger, dataDir: string): void {
  const why = exposureOf(dataDir, thisUser())
  if (why === undefined) return
  const fields = { code: 'SLUICE_DATA_DIR_EXPOSED', data_dir: dataDir, why }
  log.warn(fields, 'other users of this machine can change files in data_dir')
}
