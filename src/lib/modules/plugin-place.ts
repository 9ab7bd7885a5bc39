import { fileURLToPath } from 'node:url'

/** For each imported package: a text that the paths of its files contain, such as `node_modules/NAME/`. */
export const importedPackages: string[] = []

/**
 * Returns the place of a syntax error from the output of Node.js. This output has `NAME:LINE`, then the source line
 * and, in the line below it, spaces up to the column.
 */
export function markedPlace(printed: string, name: string): { line: number; column: number } | undefined {
  const [first = '', , mark = ''] = printed.slice(Math.max(0, printed.indexOf(`${name}:`))).split('\n')
  const line = Number(first.slice(name.length + 1))
  if (!(first.startsWith(`${name}:`) && Number.isInteger(line))) return undefined
  return { line, column: /^\s*/.exec(mark)![0].length + 1 }
}

/** Returns the place of a user's module in an error's stack, such as `/etc/sluice/mine.js:3:11`, or undefined. */
export function placeInPlugin(error: unknown): string | undefined {
  const stack = error instanceof Error ? (error.stack ?? '') : ''
  const [, url, place] = /(file:[^\s?]+)\?sluice=[^\s:]*:(\d+(?::\d+)?)/.exec(stack) ?? []
  if (url !== undefined) return `${fileURLToPath(url)}:${place}`
  return importedPackages.find(folder => stack.includes(folder))
}
