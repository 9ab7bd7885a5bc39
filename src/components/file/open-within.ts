import { type BigIntStats, constants } from 'node:fs'
import type { Reach } from '../../core/options/reach.js'
import { closeSync, fstatSync, openToRead } from '../../lib/files/disk/disk.js'
import { type BirthTimes, keyOf } from './identity.js'

/** Opens a file for reading within the limits of its source, if any. Does not wait for the writer of a FIFO. */
export function openWithinSync(reach: Reach | undefined, path: string): number {
  return reach ? openToRead(reach.realFile(path), constants.O_NOFOLLOW) : openToRead(path)
}

/** Opens a file that was found; undefined if its name now refers to another file. */
export function openListed(
  { path, stat }: { readonly path: string; readonly stat: BigIntStats },
  births: BirthTimes,
  reach: Reach | undefined,
): number | undefined {
  const fd = openWithinSync(reach, path)
  let isIt = false
  try {
    const now = fstatSync(fd, { bigint: true })
    isIt = keyOf(now) === keyOf(stat) && !births.differ(now, stat.birthtimeNs)
    return isIt ? fd : undefined
  } finally {
    if (!isIt) closeSync(fd)
  }
}
