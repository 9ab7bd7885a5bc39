import { inspect } from 'node:util'
import { nextTurn } from '../../src/lib/time.js'

/**
 * How long a test waits for what has to happen. Only a test that fails waits that long: the bound says nothing about
 * how fast anything is, so a slow or busy machine changes no result.
 */
export const PATIENCE_MS = 60_000

type Look<T> = () => T | Promise<T>
type Seen<T> = Exclude<T, undefined | null | false>

export interface Waiting {
  /** Milliseconds between two looks; the first ones follow each other sooner. */
  readonly every?: number
  /** What the error says was last seen; without it what `look` returned. */
  readonly show?: () => unknown
}

/**
 * What `look` returns, as soon as that is not undefined, null or false. Look at what cannot go back: a line of a log, an
 * arrival, a counter that only grows. A state that can pass between two looks has to be held by a gate.
 *
 * @param what it waits for, as the error says it; without it the text of `look`
 */
export async function until<T>(what: string, look: Look<T>, waiting?: Waiting): Promise<Seen<T>>
export async function until<T>(look: Look<T>, waiting?: Waiting): Promise<Seen<T>>
export async function until(
  what: string | Look<unknown>,
  look?: Look<unknown> | Waiting,
  waiting?: Waiting,
): Promise<unknown> {
  if (typeof what !== 'string') return until(String(what), what, look as Waiting | undefined)
  const { every = 20, show } = waiting ?? {}
  const end = performance.now() + PATIENCE_MS
  for (let ms = Math.min(1, every); ; ms = Math.min(every, 2 * ms)) {
    const seen = await (look as Look<unknown>)()
    if (seen !== undefined && seen !== null && seen !== false) return seen
    if (performance.now() > end) {
      const last = show ? show() : seen
      const text = typeof last === 'string' ? last : inspect(last)
      throw new Error(`waited ${PATIENCE_MS / 1000} s for ${what}; last seen: ${text}`)
    }
    await new Promise(resolve => setTimeout(resolve, ms))
  }
}

/**
 * Lets the event loop turn some times: what needs nothing but turns has happened then. To show that something does not
 * happen; what is to happen is waited for by `until`.
 */
export async function turns(count = 50): Promise<void> {
  for (let i = 0; i < count; i++) await nextTurn()
}
