import { statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { readlinkSync, realpathSync, unlessSilent } from './remote/guarded-fs.js'

/** Symbolic links in a row, as the kernel follows them. */
const MOST_LINKS = 40

/** Where a path leads once all its symbolic links are resolved, also when there is nothing yet. Throws when a file system does not answer. */
export function finalPath(path: string, links = MOST_LINKS): string {
  const whole = resolve(path)
  try {
    return realpathSync(whole)
  } catch (error) {
    unlessSilent(error)
    // It does not exist, or a link in it leads to nothing.
  }
  const folder = dirname(whole)
  if (folder === whole) return whole
  const real = join(finalPath(folder, links), basename(whole))
  try {
    return links > 0 ? finalPath(resolve(dirname(real), readlinkSync(real)), links - 1) : real
  } catch (error) {
    unlessSilent(error)
    return real
  }
}

/** The same text for paths that lead to one file, by hard links too. */
export function fileIdentity(path: string): string {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}:${ino}`
  } catch {
    return finalPath(path)
  }
}
