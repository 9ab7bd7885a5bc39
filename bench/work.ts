import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** Makes a new folder below `parent`. It is removed when the process ends, also by Ctrl-C. */
export function workFolder(parent: string, name: string): string {
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(resolve(parent), `sluice-${name}-`))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
  return folder
}

/** Shows what is being done: a line that the next one replaces on a terminal, and nothing elsewhere. */
export function showOnTerminal(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

/** The same, with a line of its own for each step where standard error is not a terminal. Empty: it is over. */
export function show(text: string): void {
  if (process.stderr.isTTY) showOnTerminal(text)
  else if (text !== '') process.stderr.write(`${text}\n`)
}
