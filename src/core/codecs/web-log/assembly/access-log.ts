import { Byte, byteAt, findByte, isPlain } from '../../../../lib/kernel/assembly/bytes'
import { ISO_BYTES, iso, readTime, TIME_BYTES } from './log-time'
import { putNumber, putOther, putText } from '../../../../lib/kernel/assembly/members'

/**
 * Reads lines of access logs, with the same results as `readAccessLog` in core/codecs/web-log/web-log.ts. Leaves rare lines to
 * that function: those with escapes, with control characters in requests, or in another form.
 */

/** The fields, in the order of ACCESS_FIELDS. */
const CLIENT: u32 = 0
const IDENTITY: u32 = 1
const USER: u32 = 2
const TIMESTAMP: u32 = 3
const METHOD: u32 = 4
const PATH: u32 = 5
const PROTOCOL: u32 = 6
const REQUEST: u32 = 7
const STATUS: u32 = 8
const BYTES: u32 = 9
const REFERER: u32 = 10
const FORWARDED_FOR: u32 = 12
const REST: u32 = 13
const VHOST: u32 = 14
const PORT: u32 = 15

const DASH: u32 = 0x2d
const COLON: u32 = 0x3a
const OPEN: u32 = 0x5b
const CLOSE: u32 = 0x5d
const MARK: u32 = 0xef

@inline
function isDash(p: usize, end: usize): bool {
  return end == p + 1 && byteAt(p) == DASH
}

@inline
function putUnlessDash(field: u32, p: usize, end: usize): void {
  if (!isDash(p, end)) putText(field, p, end)
}

@inline
function putQuoted(field: u32, p: usize, end: usize): void {
  if (p < end && !isDash(p, end)) putText(field, p, end)
}

@inline
function putNumberUnlessDash(field: u32, p: usize, end: usize): bool {
  return isDash(p, end) || putNumber(field, p, end)
}

/** Returns the address of the colon in a text such as `host:80`; 0 if the text has no port. */
function colonOfPort(start: usize, end: usize): usize {
  let p = end
  while (p > start && byteAt(p - 1) - 0x30 < 10) p--
  const colon = p - 1
  if (p == end || end - p > 5 || byteAt(p) == 0x30 || colon <= start || byteAt(colon) != COLON) return 0
  return byteAt(start) == OPEN || findByte(start, colon, <u8>COLON) == colon ? colon : 0
}

function isMethod(p: usize, end: usize): bool {
  for (let at = p; at < end; at++) if (byteAt(at) <= <u32>Byte.SPACE || byteAt(at) >= 0x7f || byteAt(at) == Byte.BACKSLASH) return false
  return end > p
}

/** Puts the three parts of `GET /path HTTP/1.1`. A request in any other form is put as one text. */
function putRequest(p: usize, end: usize): void {
  const method = findByte(p, end, <u8>Byte.SPACE)
  let protocol = end
  while (protocol > method && byteAt(protocol - 1) != Byte.SPACE) protocol--
  const hasProtocol =
    protocol > method + 1 &&
    end - protocol > 5 &&
    load<u32>(protocol) == 0x50545448 && // HTTP
    byteAt(protocol + 4) == 0x2f
  if (hasProtocol && isMethod(p, method)) {
    putText(METHOD, p, method)
    putQuoted(PATH, method + 1, protocol - 1)
    putText(PROTOCOL, protocol, end)
  } else putQuoted(REQUEST, p, end)
}

/** Puts the fields that follow the status and the size of the response. */
function putQuotedFields(stop: usize, end: usize): bool {
  for (let field = REFERER; field <= FORWARDED_FOR; field++) {
    if (stop >= end) return true
    if (byteAt(stop) != Byte.SPACE || stop + 1 >= end) break
    if (byteAt(stop + 1) == DASH && (stop + 2 == end || byteAt(stop + 2) == Byte.SPACE)) {
      stop += 2
      continue
    }
    if (byteAt(stop + 1) != Byte.QUOTE) break
    const close = findByte(stop + 2, end, <u8>Byte.QUOTE)
    if (close >= end) return false
    putQuoted(field, stop + 2, close)
    stop = close + 1
  }
  while (stop < end && byteAt(stop) == Byte.SPACE) stop++
  if (stop < end) putText(REST, stop, end)
  return true
}

/**
 * Reads the line [p, end). `hasHosts`: the line may begin with `host:port` of the server. Returns false for a rare
 * line.
 */
export function readAccessLine(p: usize, end: usize, hasHosts: bool): bool {
  if (byteAt(p) == MARK || byteAt(p) == OPEN || !isPlain(p, end)) return false
  // Lines of an error log begin with a time such as 2026/01/31.
  if (byteAt(p + 4) == 0x2f && byteAt(p + 7) == 0x2f) return false
  let stop = findByte(p, end, <u8>Byte.SPACE)
  if (hasHosts) {
    const colon = colonOfPort(p, stop)
    if (colon) {
      putText(VHOST, p, colon)
      if (!putNumber(PORT, colon + 1, stop)) return false
      p = stop + 1
      stop = findByte(p, end, <u8>Byte.SPACE)
    }
  }
  if (stop <= p || stop >= end) return false
  putUnlessDash(CLIENT, p, stop)
  p = stop + 1
  stop = findByte(p, end, <u8>Byte.SPACE)
  if (stop <= p || stop >= end) return false
  putUnlessDash(IDENTITY, p, stop)
  p = stop + 1
  // A user name may contain spaces.
  stop = findByte(p, end, <u8>Byte.SPACE)
  while (stop < end && byteAt(stop + 1) != OPEN) stop = findByte(stop + 1, end, <u8>Byte.SPACE)
  if (stop <= p || stop >= end) return false
  putUnlessDash(USER, p, stop)
  p = stop + 2
  stop = p + TIME_BYTES
  // A space and a quote follow.
  if (stop + 3 >= end || byteAt(stop) != CLOSE || load<u16>(stop + 1) != 0x2220 || !readTime(p)) return false
  putOther(TIMESTAMP, iso, ISO_BYTES)
  p = stop + 3
  stop = findByte(p, end, <u8>Byte.QUOTE)
  if (stop + 1 >= end || byteAt(stop + 1) != Byte.SPACE) return false
  putRequest(p, stop)
  p = stop + 2
  stop = findByte(p, end, <u8>Byte.SPACE)
  if (!putNumberUnlessDash(STATUS, p, stop)) return false
  p = stop + 1
  stop = findByte(p, end, <u8>Byte.SPACE)
  return putNumberUnlessDash(BYTES, p, stop) && putQuotedFields(stop, end)
}
