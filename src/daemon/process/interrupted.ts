/** Calls `work` with a signal that SIGINT and SIGTERM abort. */
export async function untilInterrupted<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const stop = () => controller.abort()
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const name of signals) process.once(name, stop)
  try {
    return await work(controller.signal)
  } finally {
    for (const name of signals) process.off(name, stop)
  }
}
