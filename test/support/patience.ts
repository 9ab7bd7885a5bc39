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
