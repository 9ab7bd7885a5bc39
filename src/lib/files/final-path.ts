import { statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { readlinkSync, realpathSync, unlessSilent } from './remote/guarded-fs.js'

/** Limit of symbolic links in a path, as in the kernel. */
const MOST_LINKS = 40

/** The path with all symbolic links resolved; the file need not exist. Throws if a file system does not respond. */
export function finalPath(path: string, links = MOST_LINKS): string {
  const whole = resolve(path)
  try {
    return realpathSync(whole)
  } catch (error) {
    unlessSilent(error)
    // It does not exist, or it is a symbolic link to something missing.
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

/** Identifies a file: equal for all paths that lead to it, including hard links. */
export function fileIdentity(path: string): string {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}:${ino}`
  } catch {
    return finalPath(path)
  }
}
