import { isUtf8 } from 'node:buffer'
import { BACKSLASH, COLON, DASH, QUOTE, SPACE, ZERO } from '../../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../../lib/formats/field-sink.js'
import type { LineFormat } from '../field-lines.js'
import { commonLogTime, LastTime } from '../log-times.js'

/**
 * Reads access logs in the common and combined format of nginx and Apache. The code is written by hand, because these
 * formats are the most frequent.
 */

const OPEN = 0x5b
const CLOSE = 0x5d
const HTTP = Buffer.from('HTTP/')
/** A status or a number of bytes has at most this many digits. */
const MOST_DIGITS = 15

const names = (...texts: string[]) => texts.map(text => new FieldName(text))
const [CLIENT, IDENTITY, USER, TIMESTAMP] = names('client', 'identity', 'user', 'timestamp') as FieldName[]
const [METHOD, PATH, PROTOCOL, REQUEST] = names('method', 'path', 'protocol', 'request') as FieldName[]
const [STATUS, BYTES, REFERER, USER_AGENT] = names('status', 'bytes', 'referer', 'user_agent') as FieldName[]
const [FORWARDED_FOR, REST, VHOST, PORT] = names('forwarded_for', 'rest', 'vhost', 'port') as FieldName[]

/** The fields of access logs, in the order of their numbers in core/codecs/web-log/assembly/access-log.ts. */
export const ACCESS_FIELDS =
  'client identity user timestamp method path protocol request status bytes referer user_agent forwarded_for rest'.split(
    ' ',
  )

export const ACCESS_LINES: LineFormat = { number: 0, names: ACCESS_FIELDS }
export const ACCESS_LINES_WITH_HOSTS: LineFormat = { number: 1, names: [...ACCESS_FIELDS, 'vhost', 'port'] }

const accessTime = new LastTime(commonLogTime)

/** `failedAt`: where the last line that was read does not match the format. `expected`: the text expected there. */
let failedAt = 0
let expected = ''

export function fail(at: number, what: string): false {
  failedAt = at
  expected = what
  return false
}

/** Returns which text was expected, and at which column. `start`: the position at which the line begins. */
export function whatFailed(start: number): string {
  return `expected ${expected} at column ${failedAt - start + 1}`
}

/** Reads an access log line. `hasHosts`: the line may begin with `host:port` of the server, as in `vhost_combined`. */
export function readAccessLog(b: Buffer, start: number, end: number, to: FieldSink, hasHosts: boolean): boolean {
  let p = start
  let stop = tokenEnd(b, p, end)
  if (hasHosts) {
    const colon = colonOfPort(b, p, stop)
    if (colon > 0) {
      to.text(VHOST!, b, p, colon)
      to.json(PORT!, b, colon + 1, stop)
      p = stop + 1
      stop = tokenEnd(b, p, end)
    }
  }
  if (stop <= p || stop >= end) return fail(p, 'the address of a client and a space')
  putUnlessDash(to, CLIENT!, b, p, stop)
  p = stop + 1
  stop = tokenEnd(b, p, end)
  if (stop <= p || stop >= end) return fail(p, '"-" and a space')
  putUnlessDash(to, IDENTITY!, b, p, stop)
  p = stop + 1
  // A user name may contain spaces.
  stop = p
  while (stop < end && !(b[stop] === SPACE && b[stop + 1] === OPEN)) stop++
  if (stop <= p || stop >= end) return fail(p, 'the name of a user or "-", a space and "["')
  putUnlessDash(to, USER!, b, p, stop)
  p = stop + 2
  stop = p
  while (stop < end && b[stop] !== CLOSE) stop++
  const time = stop < end ? accessTime.iso(b, p, stop) : undefined
  if (!time) return fail(p, 'a time such as 31/Jan/2026:12:00:00 +0000 and "]"')
  to.text(TIMESTAMP!, time, 0, time.length)
  p = stop + 1
  if (p + 1 >= end || b[p] !== SPACE || b[p + 1] !== QUOTE) return fail(p, 'a space and the request in double quotes')
  p += 2
  stop = quotedEnd(b, p, end)
  if (stop < 0) return fail(p, 'a double quote after the request')
  putRequest(to, b, p, stop)
  p = stop + 1
  if (p >= end || b[p] !== SPACE) return fail(p, 'a space and the status')
  return readNumbers(b, p + 1, end, to)
}

function readNumbers(b: Buffer, p: number, end: number, to: FieldSink): boolean {
  let stop = tokenEnd(b, p, end)
  if (!putDigits(to, STATUS!, b, p, stop)) return fail(p, 'the status, a number')
  p = stop + 1
  stop = tokenEnd(b, p, end)
  if (p > end || !putDigits(to, BYTES!, b, p, stop)) return fail(Math.min(p, end), 'the number of bytes or "-"')
  for (const name of QUOTED) {
    if (stop === end) return true
    if (b[stop] !== SPACE || stop + 1 >= end) break
    if (isDash(b, stop + 1, tokenEnd(b, stop + 1, Math.min(stop + 3, end)))) {
      stop += 2
      continue
    }
    if (b[stop + 1] !== QUOTE) break
    const close = quotedEnd(b, stop + 2, end)
    if (close < 0) return fail(stop + 1, `${name} in double quotes`)
    putQuoted(to, name, b, stop + 2, close)
    stop = close + 1
  }
  while (stop < end && b[stop] === SPACE) stop++
  if (stop < end) to.text(REST!, b, stop, end)
  return true
}

const QUOTED = [REFERER!, USER_AGENT!, FORWARDED_FOR!]

/** Writes the parts of `GET /path HTTP/1.1`, or the whole text if it has another form. */
export function putRequest(to: FieldSink, b: Buffer, start: number, end: number): void {
  let method = start
  while (method < end && b[method] !== SPACE) method++
  let protocol = end
  while (protocol > method && b[protocol - 1] !== SPACE) protocol--
  const hasProtocol = protocol > method + 1 && isHttp(b, protocol, end)
  if (hasProtocol && isMethod(b, start, method)) {
    to.text(METHOD!, b, start, method)
    putQuoted(to, PATH!, b, method + 1, protocol - 1)
    to.text(PROTOCOL!, b, protocol, end)
  } else putQuoted(to, REQUEST!, b, start, end)
}

function isHttp(b: Buffer, start: number, end: number): boolean {
  if (end - start <= HTTP.length) return false
  for (let i = 0; i < HTTP.length; i++) if (b[start + i] !== HTTP[i]) return false
  return true
}

/** Whether text such as M-SEARCH has only printable ASCII characters except spaces and backslashes. */
function isMethod(b: Buffer, start: number, end: number): boolean {
  for (let p = start; p < end; p++) if (b[p]! <= SPACE || b[p]! >= 0x7f || b[p] === BACKSLASH) return false
  return end > start
}

export function indexOfByte(b: Buffer, byte: number, p: number, end: number): number {
  while (p < end && b[p] !== byte) p++
  return p
}

function tokenEnd(b: Buffer, p: number, end: number): number {
  while (p < end && b[p] !== SPACE) p++
  return p
}

/** Whether the last text that `quotedEnd` found contains a backslash. */
let hasBackslash = false

/** Returns the position of the closing quote of the text that begins at `p`; -1: the text has no closing quote. */
export function quotedEnd(b: Buffer, p: number, end: number): number {
  hasBackslash = false
  for (; p < end; p++) {
    const byte = b[p]!
    if (byte === QUOTE) return p
    if (byte !== BACKSLASH) continue
    hasBackslash = true
    p++
  }
  return -1
}

function isDash(b: Buffer, start: number, end: number): boolean {
  return end === start + 1 && b[start] === DASH
}

export function putUnlessDash(to: FieldSink, name: FieldName, b: Buffer, start: number, end: number): void {
  if (!isDash(b, start, end)) to.text(name, b, start, end)
}

/**
 * Writes the last text that `quotedEnd` found, or a part of that text, with escapes resolved. Omits `-` and empty text.
 */
export function putQuoted(to: FieldSink, name: FieldName, b: Buffer, start: number, end: number): void {
  if (start === end || isDash(b, start, end)) return
  if (!hasBackslash) to.text(name, b, start, end)
  else to.value(name, unescaped(b, start, end) ?? b.toString('utf8', start, end))
}

const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|(.))/gs
const CONTROLS: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }

/** Resolves escapes. `\x22` is one byte of UTF-8. If the result is not UTF-8 (binary requests), returns undefined. */
function unescaped(b: Buffer, start: number, end: number): string | undefined {
  const text = b
    .toString('latin1', start, end)
    .replace(ESCAPE, (whole, hex: string | undefined, letter: string | undefined) => {
      if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
      return CONTROLS[letter!] ?? (/["'\\/]/.test(letter!) ? letter! : whole)
    })
  const bytes = Buffer.from(text, 'latin1')
  return isUtf8(bytes) ? bytes.toString() : undefined
}

/** Writes a number without leading zeros. Writes nothing for `-`. Returns false for any other text. */
export function putDigits(to: FieldSink, name: FieldName, b: Buffer, start: number, end: number): boolean {
  if (isDash(b, start, end)) return true
  if (end <= start || end - start > MOST_DIGITS) return false
  for (let p = start; p < end; p++) if (b[p]! < ZERO || b[p]! > ZERO + 9) return false
  while (start < end - 1 && b[start] === ZERO) start++
  to.json(name, b, start, end)
  return true
}

/**
 * Returns the position of the colon in `host:80`; -1: the text has no port, as in an IPv6 address. `isCertain`: the
 * text certainly has a port, so the last colon precedes the port.
 */
export function colonOfPort(b: Buffer, start: number, end: number, isCertain = false): number {
  let p = end
  while (p > start && b[p - 1]! >= ZERO && b[p - 1]! <= ZERO + 9) p--
  const colon = p - 1
  if (p === end || end - p > 5 || b[p] === ZERO || colon <= start || b[colon] !== COLON) return -1
  if (isCertain || b[start] === OPEN) return colon
  for (p = start; p < colon; p++) if (b[p] === COLON) return -1
  return colon
}
