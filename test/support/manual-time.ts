import { type ManualTime, settle } from '../../src/engine/testing/manual-time.js'
import { type Clock, systemClock, type TimerClock } from '../../src/lib/time.js'
import { until } from './until.js'

export { ManualTime, settle } from '../../src/engine/testing/manual-time.js'

/** Time that stands still. */
export const STOPPED_CLOCK: Clock = { now: () => 0, wall: () => 0 }

/** Real time, whose timers ring so many times as soon. For deadlines and intervals of the code under test. */
export const hurried = (times: number): TimerClock => ({
  ...systemClock,
  after: (ms, fn) => systemClock.after(ms / times, fn),
})

/** Whether calls to the file system are under way, which take real time. */
export function usesFiles(): boolean {
  return process.getActiveResourcesInfo().some(name => name.startsWith('FSReq') || name === 'CloseReq')
}

/**
 * Lets time go by until `done`, from timer to timer. It stands still while a call to the file system is under way: a
 * slow disk would use up what a test gives the code under test.
 */
export async function advanceUntil(time: ManualTime, what: string, done: () => boolean): Promise<void> {
  const look = async () => {
    await settle()
    if (done()) return true
    const { next } = time
    if (next !== undefined && !usesFiles()) await time.advance(Math.max(0, next - time.now()))
    return done()
  }
  await until(what, look, { every: 1 })
}
