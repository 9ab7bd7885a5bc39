import { inspect } from 'node:util'

/**
 * How long a test waits for what has to happen. Only a test that fails waits that long: the bound says nothing about
 * how fast anything is, so a slow or busy machine changes no result.
 */
export const PATIENCE_MS = 60_000

/**
 * What `look` returns, as soon as that is not undefined, null or false. Look at what cannot go back: a line of a log, an
 * arrival, a counter that only grows. A state that can pass between two looks has to be held by a gate.
 *
 * @param what it waits for, as the error says it
 * @param look undefined, null and false: not yet
 * @param show what the error says was last seen; without it what `look` returned
 */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  { every = 20, show }: { every?: number; show?: () => unknown } = {},
): Promise<Exclude<T, undefined | null | false>> {
  for (const end = performance.now() + PATIENCE_MS; ; await new Promise(resolve => setTimeout(resolve, every))) {
    const seen = await look()
    if (seen !== undefined && seen !== null && seen !== false) return seen as Exclude<T, undefined | null | false>
    if (performance.now() < end) continue
    const last = show ? show() : seen
    throw new Error(
      `waited ${PATIENCE_MS / 1000} s for ${what}; last seen: ${typeof last === 'string' ? last : inspect(last)}`,
    )
  }
}
