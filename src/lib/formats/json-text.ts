import { CLOSE_ARRAY, CLOSE_OBJECT, COMMA, CR, LF, OPEN_ARRAY, OPEN_OBJECT, QUOTE, SPACE } from './ascii.js'
import { stringEnd } from './json-scan.js'

/** Replaces the line ends of valid JSON by spaces. None of them is in a string. Returns the number of LFs. */
export function joinLines(json: Buffer, start: number, end: number): number {
  let lines = 0
  for (let p = start; p < end; p++) {
    if (json[p] === LF) lines++
    if (json[p] === LF || json[p] === CR) json[p] = SPACE
  }
  return lines
}

/** The end of V8's message for text that is not JSON. It quotes the text, which may contain secrets. */
const QUOTED = /(?:^|, )(?:\.{3})?".*"(?:\.{3})? is not valid JSON$/s

/** JSON.parse, with errors that do not quote the text. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new SyntaxError((error as Error).message.replace(QUOTED, '') || 'Unexpected token')
  }
}

/** Maximum levels of untrusted JSON that is parsed, and of values that JSON.stringify writes. */
const MOST_LEVELS = 100

/** Parses untrusted JSON, which may begin with a byte order mark. Throws if it exceeds the limits of `requireWithin`. */
export function parseJsonWithin(json: Buffer, most: number): unknown {
  requireWithin(json, most)
  return parseJson(new TextDecoder().decode(json))
}

/**
 * Throws if a text has more than about `most` values, or more than `deepest` levels, because parsing such JSON takes
 * long and many times its size in memory.
 */
export function requireWithin(json: Buffer, most: number, deepest = MOST_LEVELS): void {
  let [values, levels] = [0, 0]
  for (let p = 0; p < json.length; p++) {
    const byte = json[p]
    if (byte === QUOTE) {
      p = stringEnd(json, p + 1)
      if (p < 0) break
    } else if (byte === COMMA) values++
    else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) levels--
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      values++
      levels++
    }
    if (values > most || levels > deepest) throw new Error(`it has more than ${most} values or ${deepest} levels`)
  }
}

/**
 * JSON.stringify for JSON values of any depth, in time that is proportional to their size. JSON.stringify compares each
 * container with all those around it, so a loop writes deeper values, without `space`.
 */
export function jsonText(value: unknown, space?: number): string {
  return isDeeper(value, MOST_LEVELS) ? deepText(value) : JSON.stringify(value, null, space)
}

/** Whether containers are nested in more than `levels` levels. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  if (Array.isArray(value)) {
    for (const item of value) if (isDeeper(item, levels - 1)) return true
    return false
  }
  for (const name in value) if (isDeeper((value as Record<string, unknown>)[name], levels - 1)) return true
  return false
}

/** An open object or array: its members, the position of the next member, and whether no member is written yet. */
interface Open {
  readonly value: Readonly<Record<string, unknown>> | readonly unknown[]
  readonly names: readonly string[] | undefined
  next: number
  empty: boolean
}

/** Like `jsonText`, but writes bigints as integers. Takes longer for usual values. */
export function deepText(root: unknown): string {
  const parts: string[] = []
  const stack: Open[] = []
  const around = new Set<unknown>()
  const write = (given: unknown) => {
    const { toJSON } = (given ?? {}) as { toJSON?: unknown }
    const value: unknown = typeof toJSON === 'function' ? toJSON.call(given) : given
    if (typeof value !== 'object' || value === null) {
      parts.push(typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? 'null'))
      return
    }
    if (around.has(value)) throw new TypeError('Converting circular structure to JSON')
    around.add(value)
    const names = Array.isArray(value) ? undefined : Object.keys(value)
    parts.push(names ? '{' : '[')
    stack.push({ value: value as Open['value'], names, next: 0, empty: true })
  }
  write(root)
  for (let open = stack.at(-1); open; open = stack.at(-1)) {
    const { names } = open
    const members = names ?? (open.value as readonly unknown[])
    if (open.next === members.length) {
      parts.push(names ? '}' : ']')
      around.delete(open.value)
      stack.pop()
      continue
    }
    const at = open.next++
    const member = names ? (open.value as Record<string, unknown>)[names[at]!] : (open.value as readonly unknown[])[at]
    if (names && member === undefined) continue
    if (!open.empty) parts.push(',')
    open.empty = false
    if (names) parts.push(JSON.stringify(names[at]), ':')
    write(member)
  }
  return parts.join('')
}
