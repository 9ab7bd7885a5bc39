import { isAbsolute, resolve } from 'node:path'

/** A path as it was given and, if it is relative, the file that it stands for. */
export function shownPath(path: string): string {
  return isAbsolute(path) ? path : `${path} (${resolve(path)})`
}
