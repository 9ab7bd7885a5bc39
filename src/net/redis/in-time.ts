import { deadline, type TimerClock, unlessAnswered } from '../../lib/time.js'
import { CONNECT_MS, type RedisConnection } from './connection.js'
import { RedisTimeout } from './redis-error.js'

/** Like `connect` of RedisConnector. */
export type Connect = (lost: (error: Error) => void, signal: AbortSignal) => Promise<RedisConnection>

/** Connects within five seconds, or else rejects. A connection that is made after this time is closed. */
export async function connectInTime(
  connect: Connect,
  lost: (error: Error) => void,
  clock: TimerClock,
  signal: AbortSignal,
): Promise<RedisConnection> {
  const limit = deadline(CONNECT_MS, signal, (ms, fn) => clock.after(ms, fn))
  try {
    const connecting = connect(lost, limit.signal)
    connecting.then(late => limit.signal.aborted && late.destroy()).catch(() => {})
    return await inTime(connecting, CONNECT_MS, clock)
  } finally {
    limit.clear()
  }
}

/** Settles like `result`, but rejects with a RedisTimeout if `result` takes longer than `ms` milliseconds. */
export async function inTime<T>(result: Promise<T>, ms: number, clock: TimerClock): Promise<T> {
  let cancel = () => {}
  const late = new Promise<never>((_, reject) => {
    cancel = unlessAnswered(
      ms,
      () => reject(new RedisTimeout(ms)),
      (ms, fn) => clock.after(ms, fn),
    )
  })
  try {
    return await Promise.race([result, late])
  } finally {
    cancel()
  }
}
