import { constants } from 'node:fs'
import type { Reach } from '../../core/options/reach.js'
import { closeSync, fstatSync, openToRead } from '../../lib/files/disk/disk.js'
import { isOther, keyOf } from './identity.js'

/** Opens a file for reading. If `reach` is set, opens it only within `reach`. Does not wait for a FIFO's writer. */
export function openWithinSync(reach: Reach | undefined, path: string): number {
  return reach ? openToRead(reach.realFile(path), constants.O_NOFOLLOW) : openToRead(path)
}

/** Opens the file at `path`. Returns undefined if the file does not have this key and birth time. */
export function openKnown(
  path: string,
  { key, birth }: { readonly key: string; readonly birth: bigint },
  reach?: Reach,
): number | undefined {
  const fd = openWithinSync(reach, path)
  let isKnown = false
  try {
    const stat = fstatSync(fd, { bigint: true })
    isKnown = keyOf(stat) === key && stat.isFile() && !isOther(stat, birth)
    return isKnown ? fd : undefined
  } finally {
    if (!isKnown) closeSync(fd)
  }
}
