/** The first and last second whose year has four digits, counted from the epoch. */
const FIRST = -62_167_219_200
const LAST = 253_402_300_799

let lastSeconds = Number.NaN
let lastText = ''

/** Returns a time in UTC, with 0, 3, 6 or 9 digits of the fraction; undefined if its year does not have four digits. */
export function rfc3339(seconds: number, nanos: number): string | undefined {
  if (!(seconds >= FIRST && seconds <= LAST && nanos >= 0 && nanos < 1e9)) return undefined
  if (seconds !== lastSeconds) {
    lastText = new Date(seconds * 1000).toISOString().slice(0, 19)
    lastSeconds = seconds
  }
  return `${lastText}${fractionOf(nanos)}Z`
}

/** Returns the fraction of a second, such as `.500`; empty for 0. */
export function fractionOf(nanos: number): string {
  if (nanos === 0) return ''
  const digits = String(nanos).padStart(9, '0')
  return `.${digits.endsWith('000000') ? digits.slice(0, 3) : digits.endsWith('000') ? digits.slice(0, 6) : digits}`
}
