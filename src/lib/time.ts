/** The clock that all other code uses. Tests pass their own. */
export interface Clock {
  /** Monotonic milliseconds. They never decrease. */
  now(): number
  /** Returns the milliseconds since the epoch. They may jump. */
  wall(): number
}

export interface TimerClock extends Clock {
  /** Runs `fn` once after `ms`. The returned function cancels the call. */
  after(ms: number, fn: () => void): () => void
}

export const systemClock: TimerClock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after,
}

/** The longest possible timer, 24 days. Node.js would fire a longer timer immediately. */
const LONGEST_MS = 2 ** 31 - 1
const possible = (ms: number) => Math.min(ms, LONGEST_MS)

/** Resolves after `ms` milliseconds or when `signal` aborts; never rejects. `timer` may belong to another clock. */
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

/** Resolves in the next turn of the event loop, after all callbacks that are already due. */
export { setImmediate as nextTurn } from 'node:timers/promises'

export function after(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, possible(ms))
  return () => clearTimeout(timer)
}

/** Resolves when all promises have settled, or after `ms`. */
export async function settledWithin(ms: number, promises: readonly Promise<unknown>[]): Promise<void> {
  if (promises.length > 0) await within(ms, Promise.allSettled(promises))
}

/**
 * Settles as the promise does, or resolves with undefined after `ms`. `timer` may belong to another clock. Uses no
 * AbortSignal, because only a full garbage collection frees what a signal refers to.
 */
export function within<T>(ms: number, promise: Promise<T>, timer = after): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const cancel = timer(ms, () => resolve(undefined))
    promise.then(resolve, reject).finally(cancel)
  })
}

/** Runs `fn` every `ms` without keeping the process alive. The returned function stops it. */
export function every(ms: number, fn: () => void): () => void {
  const timer = setInterval(fn, possible(ms))
  timer.unref()
  return () => clearInterval(timer)
}

/** Runs `fn` every `ms` milliseconds with the timers of `clock`. The returned function stops this. */
export function everyOf(clock: TimerClock, ms: number, fn: () => void): () => void {
  const next = () =>
    clock.after(ms, () => {
      cancel = next()
      fn()
    })
  let cancel = next()
  return () => cancel()
}

/**
 * Runs `fn` once after `ms` milliseconds. Call the returned function when the awaited answer arrives; `fn` then does
 * not run. After the process was stopped or busy, timers fire before it has read the answers that have arrived. `fn`
 * therefore waits until these are read.
 */
export function unlessAnswered(ms: number, fn: () => void, timer = after): () => void {
  let isAnswered = false
  const late = () => {
    if (!isAnswered) fn()
  }
  const cancel = timer(ms, () => void setImmediate(late))
  return () => {
    isAnswered = true
    cancel()
  }
}

/**
 * Returns a signal that aborts when `parent` does, or after `ms` milliseconds. Call `clear` when the work is done.
 * `timer` may belong to another clock.
 */
export function deadline(ms: number, parent?: AbortSignal, timer = after): { signal: AbortSignal; clear: () => void } {
  const controller = new AbortController()
  const abort = () => controller.abort(parent?.reason)
  const cancel = unlessAnswered(ms, () => controller.abort(new Error(`no answer within ${ms} ms`)), timer)
  if (parent?.aborted) abort()
  parent?.addEventListener('abort', abort, { once: true })
  return {
    signal: controller.signal,
    clear: () => {
      cancel()
      parent?.removeEventListener('abort', abort)
    },
  }
}

/** Returns the milliseconds of CPU time that this process has used. */
export function cpuTime(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/**
 * Measures computing work, for pauses proportional to the work. The returned function returns the milliseconds since
 * the call of `measureWork`, without the time of other processes. With wall time, the pause would be far longer on a
 * busy machine, with a CPU quota, or after a stop of the process.
 */
export function measureWork(clock: Clock): () => number {
  const [began, usedBefore] = [clock.now(), cpuTime()]
  return () => Math.min(clock.now() - began, cpuTime() - usedBefore)
}

/** CLOCK_MONOTONIC, the clock of systemd, in microseconds, as text. */
export function monotonicMicros(): string {
  return String(process.hrtime.bigint() / 1000n)
}

/** A promise and its resolve function. Node.js has this from version 22 on, as `Promise.withResolvers`. */
export interface Deferred {
  readonly promise: Promise<void>
  readonly resolve: () => void
}

export function deferred(): Deferred {
  let resolve = () => {}
  const promise = new Promise<void>(done => {
    resolve = done
  })
  return { promise, resolve }
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Settles like `work`, but resolves as soon as `signal` aborts. Afterwards, leaves no listener on the signal. */
export function orAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = () => {
      signal.removeEventListener('abort', go)
      resolve()
    }
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', go)
    work.then(go, error => {
      reject(error)
      go()
    })
  })
}
