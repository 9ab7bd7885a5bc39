import type { Template } from './template.js'

/** `%Y`, `%m`, `%d`, `%F` (the date), `%H` and `%M` in a template stand for parts of the event time in UTC. */

/** Positions of the parts of a time such as `2026-01-31T23:59:59Z`. */
const PARTS: Readonly<Record<string, readonly [from: number, to: number]>> = {
  Y: [0, 4],
  m: [5, 7],
  d: [8, 10],
  F: [0, 10],
  H: [11, 13],
  M: [14, 16],
}
const TIME = /%([YmdFHM])/g

/** `time`: as of `toISOString`. */
export const withTime = (text: string, time: string): string =>
  text.replace(TIME, (_, part: string) => time.slice(...PARTS[part]!))

export const isDated = ({ parts }: Template): boolean =>
  parts.some(part => typeof part === 'string' && part.search(TIME) >= 0)

/** Replaces the parts of a time in the literal text of a template. */
export function dated({ text, parts }: Template, time: string): Template {
  return { text, parts: parts.map(part => (typeof part === 'string' ? withTime(part, time) : part)) }
}
