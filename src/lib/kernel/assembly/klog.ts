import { byteAt, find, isDigit, SPACE } from './bytes'
import { dayNumber, daysIn, putTwo, two } from './dates'
import { isWriting, putNumber, putOther, putText } from './members'

/** Reads lines of klog as core/codecs/klog.ts does. It leaves times that are far from when the line was received. */

/** The fields, in the order of KLOG_LINES. */
const LEVEL: u32 = 0
const TIMESTAMP: u32 = 1
const ID: u32 = 2
const FILE: u32 = 3
const LINE: u32 = 4
const MESSAGE: u32 = 5

const POINT: u32 = 0x2e
const COLON: u32 = 0x3a
const CLOSE: u32 = 0x5d
/** Length of `0505 17:59:40.692994`, and of its part before the point. */
const TIME_BYTES: usize = 20
const SECOND: usize = 13
/** Length of `2026-05-05T17:59:40.692994Z`. */
const ISO_BYTES: usize = 27
/** Within so many minutes no other year is nearer. */
const NEAR: i32 = 180 * 1440

/** `info`, `warning`, `error` and `fatal`. */
const levels: usize = memory.data<u64>([0x6f666e69, 0x676e696e726177, 0x726f727265, 0x6c61746166, 0, 0, 0])
const iso: usize = memory.data(32)
/** The time when lines are received, in minutes as those of dates.ts, and its year; 0: it is not known. */
let received: i32 = 0
let receivedYear: u32 = 0

export function setReceived(minutes: i32, year: u32): void {
  received = minutes
  receivedYear = year
}

/** Makes `iso` of the time at `p`, which is right, in a year near that of the line. False if there is none. */
function convert(p: usize): bool {
  const ofYear = two(p + 5) * 60 + two(p + 8)
  for (let year = receivedYear - 1; year <= receivedYear + 1; year++) {
    const minutes = <i32>(dayNumber(year, two(p), two(p + 2)) * 1440 + ofYear)
    if (minutes - received > NEAR || received - minutes > NEAR) continue
    putTwo(iso, year / 100)
    putTwo(iso + 2, year % 100)
    store<u8>(iso, 0x2d, 4)
    store<u16>(iso, load<u16>(p), 5)
    store<u8>(iso, 0x2d, 7)
    store<u16>(iso, load<u16>(p, 2), 8)
    store<u8>(iso, 0x54, 10)
    // The clock with its fraction.
    v128.store(iso, v128.load(p, 5), 11)
    store<u8>(iso, 0x5a, 26)
    return true
  }
  return false
}

/** Whether `0505 17:59:40.692994` is at `p`. The last day of February in leap years is left. */
function isTime(p: usize): bool {
  const month = two(p)
  const day = two(p + 2)
  if (month == 0 || month > 12 || day == 0 || day > daysIn(2001, month)) return false
  if (byteAt(p + 4) != SPACE || byteAt(p + 7) != COLON || byteAt(p + 10) != COLON) return false
  if (two(p + 5) > 23 || two(p + 8) > 59 || two(p + 11) > 59 || byteAt(p + SECOND) != POINT) return false
  for (let digit = p + SECOND + 1; digit < p + TIME_BYTES; digit++) if (!isDigit(byteAt(digit))) return false
  return true
}

function putLevel(letter: u32): bool {
  if (letter == 0x49) putOther(LEVEL, levels, 4)
  else if (letter == 0x57) putOther(LEVEL, levels + 8, 7)
  else if (letter == 0x45) putOther(LEVEL, levels + 16, 5)
  else if (letter == 0x46) putOther(LEVEL, levels + 24, 5)
  else return false
  return true
}

/** Reads the line [p, end). False if it must be read elsewhere. */
export function readKlogLine(p: usize, end: usize): bool {
  if (p + TIME_BYTES + 1 >= end || !putLevel(byteAt(p)) || !isTime(++p)) return false
  if (isWriting() && (receivedYear == 0 || !convert(p))) return false
  putOther(TIMESTAMP, iso, ISO_BYTES)
  p += TIME_BYTES
  while (p < end && byteAt(p) == SPACE) p++
  let stop = find(p, end, <u8>SPACE)
  if (stop >= end || !putNumber(ID, p, stop)) return false
  p = stop + 1
  stop = find(p, end, <u8>CLOSE)
  let colon = stop - 1
  while (colon > p && byteAt(colon) != COLON) colon--
  if (stop >= end || colon <= p || !putNumber(LINE, colon + 1, stop)) return false
  putText(FILE, p, colon)
  p = stop + 1
  if (p < end && byteAt(p) == SPACE) p++
  while (end > p && byteAt(end - 1) <= SPACE) end--
  putText(MESSAGE, p, end)
  return true
}
