import { constants } from 'node:fs'
import type { Reach } from '../../core/options/reach.js'
import { openSync } from '../../lib/files/remote/guarded-fs.js'

/** Opens a file for reading within the limits of its source, if any. Does not wait for the writer of a FIFO. */
export function openWithinSync(reach: Reach | undefined, path: string): number {
  const flags = constants.O_RDONLY | constants.O_NONBLOCK
  return reach ? openSync(reach.realFile(path), flags | constants.O_NOFOLLOW) : openSync(path, flags)
}
