import { closeSync, constants, openSync } from 'node:fs'
import { basename, dirname, relative } from 'node:path'

/** Maximum bytes of a socket path on every platform, without the terminating zero. */
const LONGEST_PATH = 100

/** Returns a path to `path` that is short enough for a socket. Valid until `release` is called. */
export function shortPath(path: string): { short: string; release: () => void } {
  const isShort = (text: string) => Buffer.byteLength(text) <= LONGEST_PATH
  if (isShort(path)) return { short: path, release: () => {} }
  const near = relative(process.cwd(), path)
  if (isShort(near)) return { short: near, release: () => {} }
  const folder = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  let held = true
  const release = () => {
    if (held) closeSync(folder)
    held = false
  }
  return { short: `/proc/self/fd/${folder}/${basename(path)}`, release }
}
