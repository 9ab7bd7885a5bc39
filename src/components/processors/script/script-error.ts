import { fileURLToPath } from 'node:url'
import { errorText } from '../../../core/errors.js'
import { CODE, placeInCode } from './syntax.js'

const FRAME = /(?:^|[\s(])(file:\/\/[^\s)]+?|code):(\d+)(?::(\d+))?(?=\)?$)/gm
/** The folder of Sluice's own files. */
const OWN = new URL('../../../', import.meta.url).href

/** The error that a script threw. If known, its place comes first: `/etc/sluice/mine.js:3:11: x is not defined`. */
export function scriptError(error: unknown): string {
  const { stack, name, message } = (error ?? {}) as Partial<Error>
  const thrown = typeof error === 'string' ? error : `it threw ${errorText(error)}`
  const text = message === undefined ? thrown : name && name !== 'Error' ? `${name}: ${message}` : message
  const place = typeof stack === 'string' ? placeIn(stack) : undefined
  return place === undefined ? text : `${place}: ${text}`
}

/** Returns the first place in a stack trace that is not in a file of Sluice or Node.js. */
function placeIn(stack: string): string | undefined {
  for (const [, name = '', line = '', column = '1'] of stack.matchAll(FRAME)) {
    if (name === CODE) return placeInCode(line, column)
    if (!name.startsWith(OWN)) return `${fileURLToPath(name)}:${line}:${column}`
  }
  return undefined
}
