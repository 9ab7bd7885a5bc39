/** The CPU time of this process that `run` takes, in milliseconds: the least of several runs. */
export async function cpuTime(runs: number, run: () => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let n = 0; n < runs; n++) {
    const before = process.cpuUsage()
    await run()
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}
