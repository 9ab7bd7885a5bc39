import { COLON, isDigit, SPACE } from '../../../lib/formats/ascii.js'
import { structuredDataEnd } from './syslog-data.js'
import { classicTimeEnd, isoTimeEnd } from './syslog-time.js'

/**
 * Reads syslog lines of RFC 5424 and RFC 3164. Lines of RFC 3164 are read as they occur in practice: they may lack a
 * host, have a timestamp of RFC 3339 (from rsyslog), or lack a priority (in files). Finds the parts in one pass over
 * the bytes, and decodes them on demand.
 *
 * A line is syslog if it begins with a priority or a timestamp. All text that belongs to no other part is the message,
 * except separators.
 */

/** Parts of a line: indexes into `partStarts` and `partEnds`. */
export const TIME = 0
export const HOST = 1
export const APP = 2
export const PID = 3
export const MSGID = 4
export const DATA = 5
export const MESSAGE = 6
/** The digits of the priority. */
export const PRIORITY = 7
const PARTS = 8

/** Where the parts of the last scanned line are. A start of -1 means that the line does not have the part. */
export const partStarts = new Int32Array(PARTS)
export const partEnds = new Int32Array(PARTS)
/**
 * The priority of the last scanned line (facility * 8 + severity), or -1 if the line has no priority. `digitsStart` and
 * `digitsEnd` are the range of its digits.
 */
export let priority = -1
let digitsStart = 0
let digitsEnd = 0
let classic = false

export const FACILITIES =
  'kern user mail daemon auth syslog lpr news uucp cron authpriv ftp ntp security console solaris-cron local0 local1 local2 local3 local4 local5 local6 local7'.split(
    ' ',
  )
/** By number, worst first. */
export const SEVERITIES = 'emerg alert crit err warning notice info debug'.split(' ')
const HIGHEST_PRIORITY = 191

const OPEN = 0x5b
const CLOSE = 0x5d
const NIL = 0x2d

/** Finds the parts of the line [start, end). Returns false if it is not syslog. */
export function scanSyslog(b: Uint8Array, start: number, end: number): boolean {
  let p = start
  priority = -1
  if (p < end && b[p] === 0x3c) {
    p = priorityEnd(b, p + 1, end)
    if (p < 0) return false
    if (p + 1 < end && b[p] === 0x31 && b[p + 1] === SPACE && scanVersion1(b, p + 2, end)) return true
  }
  return scanClassic(b, p, end)
}

function put(part: number, start: number, end: number): void {
  partStarts[part] = start
  partEnds[part] = end
}

/** Reads the priority `NNN>` at `p` into `priority`. Returns the index after it; -1 if the priority is invalid. */
function priorityEnd(b: Uint8Array, p: number, end: number): number {
  let value = 0
  const digits = p
  while (p < end && p < digits + 3 && isDigit(b[p]!)) value = value * 10 + b[p++]! - 0x30
  if (p === digits || p === end || b[p] !== 0x3e || value > HIGHEST_PRIORITY) return -1
  priority = value
  digitsStart = digits
  digitsEnd = p
  return p + 1
}

/** Resets the parts for a new line, whose priority is already known. */
function clearParts(): void {
  partStarts.fill(-1)
  if (priority >= 0) put(PRIORITY, digitsStart, digitsEnd)
}

/** Returns the end of the word at `p`: the next space or the end of the line. */
function wordEnd(b: Uint8Array, p: number, end: number): number {
  while (p < end && b[p]! > SPACE) p++
  return p
}

/** Scans a line of RFC 5424 from `p`, which is after the version. Returns false if the line has another form. */
function scanVersion1(b: Uint8Array, p: number, end: number): boolean {
  clearParts()
  classic = false
  for (let part = TIME; part <= MSGID; part++) {
    const stop = wordEnd(b, p, end)
    if (stop === p || stop === end || b[stop] !== SPACE) return false
    const nil = stop === p + 1 && b[p] === NIL
    if (part === TIME && !nil && isoTimeEnd(b, p, stop) !== stop) return false
    if (!nil) put(part, p, stop)
    p = stop + 1
  }
  const data = p
  p = b[p] === NIL ? p + 1 : structuredDataEnd(b, p, end)
  if (p < 0 || (p < end && b[p] !== SPACE)) {
    // If the structured data is missing or malformed, the message begins here, so that this text stays readable.
    putMessage(b, data, end)
    return true
  }
  if (b[data] !== NIL) put(DATA, data, p)
  putMessage(b, p < end ? p + 1 : end, end)
  return true
}

/** Sets the range of the message, without a UTF-8 byte order mark. */
function putMessage(b: Uint8Array, p: number, end: number): void {
  const marked = end - p >= 3 && b[p] === 0xef && b[p + 1] === 0xbb && b[p + 2] === 0xbf
  put(MESSAGE, marked ? p + 3 : p, end)
}

/** Scans a line of RFC 3164 from `p`: the part after its priority or, in a file, a whole line without priority. */
function scanClassic(b: Uint8Array, p: number, end: number): boolean {
  clearParts()
  if (priority >= 0 && p < end && b[p] === SPACE) p++
  classic = true
  let stop = classicTimeEnd(b, p, end)
  if (stop < 0) {
    classic = false
    stop = isoTimeEnd(b, p, end)
  }
  let behind = stop
  if (behind >= 0 && behind < end && b[behind] === COLON) behind++
  if (behind < 0 || (behind < end && b[behind] !== SPACE)) {
    if (priority < 0) return false
    scanTag(b, p, end)
    return true
  }
  put(TIME, p, stop)
  p = Math.min(behind + 1, end)
  if (!scanTag(b, p, end)) scanHost(b, p, end)
  return true
}

/** Scans the host at `p`, and what follows the host. If there is no host at `p`, the message still begins at `p`. */
function scanHost(b: Uint8Array, p: number, end: number): void {
  let stop = p
  while (stop < end && isHostByte(b[stop]!)) stop++
  if (stop === p || stop === end || b[stop] !== SPACE) return
  put(HOST, p, stop)
  scanTag(b, stop + 1, end)
}

function isHostByte(byte: number): boolean {
  const letter = byte | 0x20
  // Letters, digits, and the characters - . : _ % of names and addresses.
  return (
    (letter >= 0x61 && letter <= 0x7a) ||
    (byte >= 0x2d && byte <= 0x3a && byte !== 0x2f) ||
    byte === 0x5f ||
    byte === 0x25
  )
}

/** Scans `app:` or `app[pid]:` and the message. Returns false without such a tag; everything is then the message. */
function scanTag(b: Uint8Array, p: number, end: number): boolean {
  const stop = wordEnd(b, p, end)
  let open = p + 1
  while (open < stop && b[open] !== OPEN) open++
  let close = open + 2
  while (close < stop && b[close] !== CLOSE) close++
  let message = -1
  if (close < stop) {
    // If no colon follows the brackets, only a number in them is a process id.
    if (b[close + 1] === COLON && close + 1 < stop) message = close + 2
    else if (close + 1 === stop && allDigits(b, open + 1, close)) message = stop
    if (message >= 0) {
      put(APP, p, open)
      put(PID, open + 1, close)
    }
  }
  if (message < 0 && stop > p + 1 && b[stop - 1] === COLON && b[p] !== OPEN) {
    put(APP, p, stop - 1)
    message = stop
  }
  if (message < 0) {
    putMessage(b, p, end)
    return false
  }
  putMessage(b, message < end && b[message] === SPACE ? message + 1 : message, end)
  return true
}

function allDigits(b: Uint8Array, p: number, end: number): boolean {
  while (p < end && isDigit(b[p]!)) p++
  return p === end
}

/** Whether the timestamp of the last scanned line has neither year nor zone. If so, `classicTime` reads it. */
export function isClassicTime(): boolean {
  return classic
}

/** Returns a field of a priority: `facility`, `severity` or `severity_code`, which is from 0 (emerg) to 7 (debug). */
export function fieldOfPriority(priority: number, name: string): string | number | undefined {
  if (name === 'severity_code') return priority & 7
  return name === 'facility' ? FACILITIES[priority >> 3] : SEVERITIES[priority & 7]
}
