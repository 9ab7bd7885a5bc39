/** Time as the rest of the code sees it. Tests hand in a clock of their own. */
export interface Clock {
  /** Monotonic milliseconds; never goes back. */
  now(): number
  /** Milliseconds since the epoch; may jump. */
  wall(): number
}

/** A clock whose time timers go by. */
export interface TimerClock extends Clock {
  /** Runs `fn` once after `ms`; the returned function cancels it. */
  after(ms: number, fn: () => void): () => void
}

export const systemClock: TimerClock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after,
}

/** A timer cannot wait longer (24 days), and fires at once when it is asked to. */
const LONGEST_MS = 2 ** 31 - 1
const possible = (ms: number) => Math.min(ms, LONGEST_MS)

/** Resolves after `ms`; at once, without an error, when `signal` aborts. `timer`: that of another clock. */
export function sleep(ms: number, signal?: AbortSignal, timer = after): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted) return resolve()
    const done = () => {
      cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const cancel = timer(ms, done)
    signal?.addEventListener('abort', done, { once: true })
  })
}

/** Resolves in the next turn of the event loop, after everything that is due already. */
export { setImmediate as nextTurn } from 'node:timers/promises'

/** Runs `fn` once after `ms`; the returned function cancels it. */
export function after(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, possible(ms))
  return () => clearTimeout(timer)
}

/** Runs `fn` every `ms` without keeping the process alive; the returned function stops it. */
export function every(ms: number, fn: () => void): () => void {
  const timer = setInterval(fn, possible(ms))
  timer.unref()
  return () => clearInterval(timer)
}

/** A signal that aborts when `parent` does or after `ms`; call `clear` when the work is done. */
export function deadline(ms: number, parent?: AbortSignal): { signal: AbortSignal; clear: () => void } {
  const controller = new AbortController()
  const abort = () => controller.abort(parent?.reason)
  const timer = setTimeout(() => controller.abort(new Error(`no answer within ${ms} ms`)), possible(ms))
  if (parent?.aborted) abort()
  parent?.addEventListener('abort', abort, { once: true })
  return {
    signal: controller.signal,
    clear: () => {
      clearTimeout(timer)
      parent?.removeEventListener('abort', abort)
    },
  }
}

/** Microseconds of the clock that systemd goes by (CLOCK_MONOTONIC), as text. */
export function monotonicMicros(): string {
  return String(process.hrtime.bigint() / 1000n)
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
