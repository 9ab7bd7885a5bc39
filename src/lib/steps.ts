import { nextTurn } from './time.js'

/** Long work that yields after each short part of it. */
export type Steps<T> = Generator<void, T>

/** How long steps may block the event loop, in milliseconds. */
const SLICE_MS = 10
/** Number of items that take much less time than SLICE_MS. */
const STEP_ITEMS = 1000

/** Does the work. Between two slices, the event loop gets its turn. */
export async function inSlices<T>(steps: Steps<T>): Promise<T> {
  for (let since = performance.now(); ; ) {
    const { done, value } = steps.next()
    if (done) return value
    if (performance.now() - since < SLICE_MS) continue
    await nextTurn()
    since = performance.now()
  }
}

/** Does the work without a pause. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** Returns the results of `fn` for all items. */
export function* mapped<T, R>(items: readonly T[], fn: (item: T, n: number) => R): Steps<R[]> {
  const results: R[] = []
  for (let n = 0; n < items.length; n++) {
    results.push(fn(items[n]!, n))
    if (n % STEP_ITEMS === 0) yield
  }
  return results
}
