import { isAbsolute, resolve } from 'node:path'

/** A path as given and, if it is relative, its absolute form. */
export function shownPath(path: string): string {
  return isAbsolute(path) ? path : `${path} (${resolve(path)})`
}
