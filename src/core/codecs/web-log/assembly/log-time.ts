import { byteAt } from '../../../../lib/kernel/assembly/bytes'
import { dayNumber, daysIn, putTwo, twoDigits } from '../../../../lib/kernel/assembly/dates'

/** Converts times of access logs to ISO 8601 in UTC. Caches the last time, since many lines have the same second. */

/** Length of `31/Jan/2026:12:00:00 +0100`. */
export const TIME_BYTES: usize = 26
/** Length of `2026-01-31T11:00:00.000Z`. */
export const ISO_BYTES: usize = 24

const last: usize = memory.data(32)
/** The time that was read last, in ISO 8601. */
export const iso: usize = memory.data(32)

/** Returns the month whose English name begins with the three bytes at `p`, from 1; 0 if there is none. */
function monthAt(p: usize): u32 {
  switch (load<u32>(p) & 0xffffff) {
    case 0x6e614a: return 1 // Jan
    case 0x626546: return 2 // Feb
    case 0x72614d: return 3 // Mar
    case 0x727041: return 4 // Apr
    case 0x79614d: return 5 // May
    case 0x6e754a: return 6 // Jun
    case 0x6c754a: return 7 // Jul
    case 0x677541: return 8 // Aug
    case 0x706553: return 9 // Sep
    case 0x74634f: return 10 // Oct
    case 0x766f4e: return 11 // Nov
    case 0x636544: return 12 // Dec
    default: return 0
  }
}

function putDay(days: u32): void {
  const era = days / 146_097
  const ofEra = days % 146_097
  const yearOfEra = (ofEra - ofEra / 1460 + ofEra / 36_524 - ofEra / 146_096) / 365
  const ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
  const shifted = (5 * ofYear + 2) / 153
  const month = shifted < 10 ? shifted + 3 : shifted - 9
  const year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
  putTwo(iso, year / 100)
  putTwo(iso + 2, year % 100)
  store<u8>(iso, 0x2d, 4)
  putTwo(iso + 5, month)
  store<u8>(iso, 0x2d, 7)
  putTwo(iso + 8, ofYear - (153 * shifted + 2) / 5 + 1)
  store<u8>(iso, 0x54, 10)
}

/** Converts the time at `p` to `iso`. Returns false if there is no time, or a rare one such as a leap second. */
function convert(p: usize): bool {
  const year = twoDigits(p + 7) * 100 + twoDigits(p + 9)
  const month = monthAt(p + 3)
  const day = twoDigits(p)
  const hour = twoDigits(p + 12)
  const minute = twoDigits(p + 15)
  const second = twoDigits(p + 18)
  const offsetHours = twoDigits(p + 22)
  const offsetMinutes = twoDigits(p + 24)
  const sign = byteAt(p + 21)
  if (byteAt(p + 2) != 0x2f || byteAt(p + 6) != 0x2f || byteAt(p + 11) != 0x3a || byteAt(p + 14) != 0x3a) return false
  if (byteAt(p + 17) != 0x3a || byteAt(p + 20) != 0x20 || (sign != 0x2b && sign != 0x2d)) return false
  if (year < 1000 || year > 8000 || month == 0 || day == 0 || day > daysIn(year, month)) return false
  if (hour > 23 || minute > 59 || second > 59 || offsetHours > 23 || offsetMinutes > 59) return false
  const offset = offsetHours * 60 + offsetMinutes
  const local = dayNumber(year, month, day) * 1440 + hour * 60 + minute
  const minutes = sign == 0x2d ? local + offset : local - offset
  putDay(minutes / 1440)
  putTwo(iso + 11, (minutes % 1440) / 60)
  store<u8>(iso, 0x3a, 13)
  putTwo(iso + 14, minutes % 60)
  store<u8>(iso, 0x3a, 16)
  putTwo(iso + 17, second)
  store<u32>(iso, 0x3030302e, 19) // .000
  store<u8>(iso, 0x5a, 23)
  return true
}

/** Whether a time of access logs is at `p`. If so, `iso` is that time. */
export function readTime(p: usize): bool {
  const first = v128.load(p)
  const rest = v128.load(p, 10)
  const differs = v128.or(v128.xor(first, v128.load(last)), v128.xor(rest, v128.load(last, 10)))
  if (!v128.any_true(differs)) return true
  if (!convert(p)) return false
  v128.store(last, first)
  v128.store(last, rest, 10)
  return true
}
