import { statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { orNone, readlinkSync, realpathSync } from './disk/disk.js'

/** Limit of symbolic links in a path, as in the kernel. */
const MOST_LINKS = 40

/** Returns the path with all links resolved. The file need not exist. Throws if a file system does not respond. */
export function finalPath(path: string, links = MOST_LINKS): string {
  const whole = resolve(path)
  const found = orNone(() => realpathSync(whole))
  if (found !== undefined) return found
  // The path is missing, or is a symbolic link to something missing.
  const folder = dirname(whole)
  if (folder === whole) return whole
  const real = join(finalPath(folder, links), basename(whole))
  const target = links > 0 ? orNone(() => readlinkSync(real)) : undefined
  return target === undefined ? real : finalPath(resolve(dirname(real), target), links - 1)
}

/** Returns a text that identifies a file. The text is the same for all paths to the file, also for hard links. */
export function fileIdentity(path: string): string {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}:${ino}`
  } catch {
    return finalPath(path)
  }
}
