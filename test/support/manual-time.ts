import { systemClock, type TimerClock } from '../../src/lib/time.js'

export { ManualTime, settle } from '../../src/testing/manual-time.js'

/** Real time, whose timers ring so many times as soon. For deadlines and intervals of the code under test. */
export const hurried = (times: number): TimerClock => ({
  ...systemClock,
  after: (ms, fn) => systemClock.after(ms / times, fn),
})
