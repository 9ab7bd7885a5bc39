import { accessSync } from './disk/disk.js'

/** The code of the error, as in EACCES, if this user cannot use the path in this `mode`; undefined if it can. */
export function refusalOf(path: string, mode: number): string | undefined {
  try {
    accessSync(path, mode)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code
  }
}
