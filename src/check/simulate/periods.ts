const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Length of each period in milliseconds; of a month on average. */
export const PERIODS = {
  second: 1000,
  minute: 60_000,
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: (365.2425 / 12) * DAY_MS,
} as const
export type Period = keyof typeof PERIODS

/** The epoch was a Thursday; weeks begin on Mondays. */
const MONDAY_MS = 4 * DAY_MS

/** The calendar period in UTC that contains a time. */
export function periodStart(time: number, period: Period): { readonly start: number; readonly end: number } {
  if (period === 'month') {
    const date = new Date(time)
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
    return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) }
  }
  const length = PERIODS[period]
  const offset = period === 'week' ? MONDAY_MS : 0
  const start = Math.floor((time - offset) / length) * length + offset
  return { start, end: start + length }
}
