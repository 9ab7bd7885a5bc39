import { beginning, displayWidth, padEnd } from '../../../daemon/process/wrap.js'
import type { KeyResult, OtherKeys } from './result.js'

/** Tables and numbers for a terminal. */

export const USUAL_COLUMNS = 80
/** A key is never shortened below this, however narrow the terminal is. */
const SHORTEST_KEY = 12

export interface SummaryStyle {
  /** Undefined or 0: not known. */
  readonly columns: number | undefined
  readonly colour: boolean
}

export const DEFAULT_BUCKET_NAME = '(default bucket)'

export const number = (value: number) => value.toLocaleString('en-US')

/** `2 keys`, `1 key`. */
export const count = (value: number, noun: string) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`

export const percent = (part: number, whole: number) => `${whole === 0 ? '0.0' : ((part / whole) * 100).toFixed(1)} %`

export const timeText = (ms: number) => new Date(ms).toISOString()

/** The keys of one trial, one line each. */
export interface KeyRows {
  readonly by_key: readonly KeyResult[]
  readonly others: OtherKeys | null
  readonly more_keys: boolean
}

export function keyTable({ by_key, others, more_keys }: KeyRows, style: SummaryStyle): string[] {
  const rows = by_key.map(key => [keyName(key), ...numbers(key).map(number)])
  if (others) {
    const { passed, discarded, excluded } = others
    const sums = [passed + discarded + excluded, passed, discarded, excluded]
    rows.push([`other (${count(others.keys, 'key')}${more_keys ? ' and more' : ''})`, ...sums.map(number), ''])
  }
  return tableLines(['key', 'events', 'passed', 'discarded', 'excluded', 'busiest window'], rows, style)
}

/** The first column is text, and is shortened if the terminal is too narrow; the others are numbers. */
export function tableLines(titles: readonly string[], rows: readonly string[][], style: SummaryStyle): string[] {
  const columns = style.columns || USUAL_COLUMNS
  const bold = (text: string) => (style.colour ? `\x1b[1m${text}\x1b[22m` : text)
  const [title, ...others] = titles
  const widths = others.map((title, i) => Math.max(title.length, ...rows.map(row => row[i + 1]!.length)))
  const room = columns - widths.reduce((sum, width) => sum + width + 2, 0)
  const longest = Math.max(title!.length, ...rows.map(row => displayWidth(row[0]!)))
  const keyWidth = Math.min(Math.max(room, SHORTEST_KEY), longest)
  const line = ([name, ...cells]: readonly string[]) =>
    [padded(name!, keyWidth), ...cells.map((cell, i) => cell.padStart(widths[i]!))].join('  ').trimEnd()
  return [bold(line(titles)), ...rows.map(line)]
}

export const numbers = (key: KeyResult) => [
  key.passed + key.discarded + key.excluded,
  key.passed,
  key.discarded,
  key.excluded,
  key.busiest,
]

/** The key on one line, with invisible characters escaped. */
export function keyName({ key }: { readonly key: string | null }): string {
  if (key === null) return DEFAULT_BUCKET_NAME
  const visible = key
    .toWellFormed()
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, char => `\\u{${char.codePointAt(0)!.toString(16)}}`)
  return visible.trim() === visible && visible !== DEFAULT_BUCKET_NAME ? visible : JSON.stringify(visible)
}

/** Pads or cuts to exactly `width` columns. */
function padded(text: string, width: number): string {
  return padEnd(displayWidth(text) <= width ? text : `${beginning(text, width - 1)}…`, width)
}

export function inputName(input: string): string {
  return input === '-' ? 'standard input' : input
}
