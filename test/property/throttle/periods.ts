/** Calendar periods, found by looking at what a calendar says of single times. */

export interface Period {
  readonly start: number
  readonly end: number
}

/** The period that a time is in; milliseconds since the epoch. */
export type PeriodOf = (time: number) => Period

const LONGEST_MS = 32 * 86_400_000

export const alignedPeriods =
  (windowMs: number): PeriodOf =>
  time => {
    const start = Math.floor(time / windowMs) * windowMs
    return { start, end: start + windowMs }
  }

const calendars = new Map<string, PeriodOf>()

/** The periods of a time zone: `per` is hour, day, week or month. */
export function calendarPeriods(per: string, timeZone: string): PeriodOf {
  const name = `${per} ${timeZone}`
  const periods = calendars.get(name) ?? newCalendar(per, timeZone)
  calendars.set(name, periods)
  return periods
}

function newCalendar(per: string, timeZone: string): PeriodOf {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  /** A text that is the same for all times of a period, and for no other time near it. */
  const label = (time: number): string => {
    const second = Math.floor(time / 1000) * 1000
    const parts = Object.fromEntries(format.formatToParts(second).map(({ type, value }) => [type, Number(value)]))
    const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second: seconds = 0 } = parts
    const date = Date.UTC(year, month - 1, day)
    if (per === 'month') return `${year} ${month}`
    if (per === 'day') return String(date)
    if (per === 'week') return String(date - ((new Date(date).getUTCDay() + 6) % 7) * 86_400_000)
    // An hour that clocks repeat is two, with different distances from UTC.
    return `${date} ${hour} ${Date.UTC(year, month - 1, day, hour, minute, seconds) - second}`
  }
  const known: Period[] = []
  return time => {
    const found = known.find(({ start, end }) => start <= time && time < end)
    if (found) return found
    const name = label(time)
    /** The first time from `from` on that is in another period if it is `outside`, within `until`; whole seconds. */
    const edge = (inside: number, outside: number): number => {
      let [yes, no] = [inside, outside]
      while (Math.abs(yes - no) > 1) {
        const middle = Math.floor((yes + no) / 2)
        if (label(middle * 1000) === name) yes = middle
        else no = middle
      }
      return Math.max(yes, no) * 1000
    }
    const second = Math.floor(time / 1000)
    const period = { start: edge(second, second - LONGEST_MS / 1000), end: edge(second, second + LONGEST_MS / 1000) }
    known.push(period)
    return period
  }
}
