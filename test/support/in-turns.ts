/** Calls `run` with all items, `jobs` of them at a time. `slot`: a number below `jobs` that no other call has meanwhile. */
export async function inTurns<T>(
  all: Iterable<T>,
  jobs: number,
  run: (one: T, slot: number) => Promise<unknown>,
): Promise<void> {
  const rest = all[Symbol.iterator]()
  const worker = async (_: unknown, slot: number) => {
    for (let next = rest.next(); !next.done; next = rest.next()) await run(next.value, slot)
  }
  await Promise.all(Array.from({ length: jobs }, worker))
}
