import { byteAt } from './bytes'

/** Returns the value of two digits, or a number above every valid value. */
@inline
export function twoDigits(p: usize): u32 {
  const tens = byteAt(p) - 0x30
  const ones = byteAt(p + 1) - 0x30
  return tens < 10 && ones < 10 ? tens * 10 + ones : 10_000
}

@inline
export function putTwo(to: usize, value: u32): void {
  store<u16>(to, <u16>(0x3030 + value / 10 + ((value % 10) << 8)))
}

export function daysIn(year: u32, month: u32): u32 {
  if (month == 2) return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31
}

/**
 * Returns the number of days since March 1 of the year 0. Until the year 8000, the minutes of these days are fewer than
 * 2^32. Years are counted from March, so that the leap day is the last day of a year.
 */
export function dayNumber(year: u32, month: u32, day: u32): u32 {
  if (month <= 2) year--
  return year * 365 + year / 4 - year / 100 + year / 400 + (153 * ((month + 9) % 12) + 2) / 5 + day - 1
}
