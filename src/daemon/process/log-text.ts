import { printable, printableText } from '../../lib/printable.js'

/** Formats log lines for people: `2026-01-31T14:03:12.345+01:00 WARN  message name=value name="two words"`. */

const WORDS: Readonly<Record<number, string>> = {
  10: 'TRACE',
  20: 'DEBUG',
  30: 'INFO ',
  40: 'WARN ',
  50: 'ERROR',
  60: 'FATAL',
}
const DIM = 2
const RED = 31
const YELLOW = 33
const WARN = 40
const ERROR = 50

/** Converts a JSON line of pino to a line of text with its line end. Returns anything else unchanged. */
export function logText(line: string, color: boolean): string {
  let record: Record<string, unknown>
  try {
    record = JSON.parse(line) as Record<string, unknown>
  } catch {
    return printableText(line)
  }
  const { level, time, pid: _pid, msg, ...fields } = record
  const paint = (code: number, text: string) => (color ? `\x1b[${code}m${text}\x1b[0m` : text)
  const number = Number(level)
  const word = WORDS[number] ?? String(level)
  const parts = [
    paint(DIM, localTime(Number(time))),
    number < WARN ? word : paint(number < ERROR ? YELLOW : RED, word),
    ...(msg === undefined ? [] : [printable(String(msg))]),
    ...Object.entries(fields).flatMap(([name, value]) => fieldTexts(name, value)),
  ]
  return `${parts.join(' ')}\n`
}

function fieldTexts(name: string, value: unknown): string[] {
  if (name === 'stack' && typeof value === 'string') return placeTexts(value)
  if (!isThrown(value)) return [`${printable(name)}=${valueText(value)}`]
  const { type, message, stack } = value
  return [`${printable(name)}=${valueText(`${type}: ${message}`)}`, ...placeTexts(stack)]
}

function placeTexts(stack: string): string[] {
  const place = /^ +at (.+)$/m.exec(stack)?.[1]
  return place === undefined ? [] : [`at=${valueText(place)}`]
}

function isThrown(value: unknown): value is { type: string; message: string; stack: string } {
  return typeof value === 'object' && value !== null && 'stack' in value && typeof value.stack === 'string'
}

/** The value as text. It is in quotes if its end could not be recognized otherwise. */
function valueText(value: unknown): string {
  if (typeof value !== 'string') return printable(JSON.stringify(value))
  return printable(/^[^\s"=\p{Cc}]+$/u.test(value) ? value : JSON.stringify(value))
}

/** Local time with its offset from UTC, or with Z if the offset is 0. */
function localTime(ms: number): string {
  const offset = -new Date(ms).getTimezoneOffset()
  const local = new Date(ms + offset * 60_000).toISOString().slice(0, -1)
  if (offset === 0) return `${local}Z`
  const two = (n: number) => String(n).padStart(2, '0')
  const size = Math.abs(offset)
  return `${local}${offset < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`
}
