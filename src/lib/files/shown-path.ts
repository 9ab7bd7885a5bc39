import { isAbsolute, resolve } from 'node:path'

/** Returns the path as given, with its absolute form if it is relative. */
export function shownPath(path: string): string {
  return isAbsolute(path) ? path : `${path} (${resolve(path)})`
}
