import { constants } from 'node:fs'
import type { Reach } from '../../core/options/reach.js'
import { openToRead } from '../../lib/files/disk/disk.js'

/** Opens a file for reading within the limits of its source, if any. Does not wait for the writer of a FIFO. */
export function openWithinSync(reach: Reach | undefined, path: string): number {
  return reach ? openToRead(reach.realFile(path), constants.O_NOFOLLOW) : openToRead(path)
}
