import { fileURLToPath } from 'node:url'

/** Parts of the paths of packages that were imported. */
export const importedPackages: string[] = []

/** Where in a module of users an error was thrown, or passed: `/etc/sluice/mine.js:3:11`. Undefined: in none, as far as is known. */
export function placeInPlugin(error: unknown): string | undefined {
  const stack = error instanceof Error ? (error.stack ?? '') : ''
  const [, url, place] = /(file:[^\s?]+)\?sluice=[^\s:]*:(\d+(?::\d+)?)/.exec(stack) ?? []
  if (url !== undefined) return `${fileURLToPath(url)}:${place}`
  return importedPackages.find(folder => stack.includes(folder))
}
