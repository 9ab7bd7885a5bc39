import { nextTurn } from '../../src/lib/time.js'

/**
 * How long a test waits for something that has to come about. Only a test that fails waits that long: the bound says
 * nothing about how fast anything is, so that a machine with other work to do changes no result.
 */
export const PATIENCE_MS = 30_000

/** What `test` returns, as soon as that is not undefined, null or false; rejects after `ms`. */
export async function eventually<T>(
  test: () => T | Promise<T>,
  ms = PATIENCE_MS,
  everyMs = 25,
): Promise<Exclude<T, undefined | null | false>> {
  for (const end = performance.now() + ms; ; await new Promise(resolve => setTimeout(resolve, everyMs))) {
    const found = await test()
    if (found !== undefined && found !== null && found !== false) return found as Exclude<T, undefined | null | false>
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${test}`)
  }
}

/** Lets the event loop turn so often: what needs nothing but turns has happened then. */
export async function turns(count = 50): Promise<void> {
  for (let i = 0; i < count; i++) await nextTurn()
}

/**
 * Resolves when `value` was the same at two looks in a row. For what stops by itself because buffers of the operating
 * system are full, of which there is no event.
 */
export async function steady(value: () => number, everyMs = 50): Promise<void> {
  let before: number | undefined
  await eventually(
    () => {
      const now = value()
      const isSame = now === before
      before = now
      return isSame
    },
    PATIENCE_MS,
    everyMs,
  )
}
