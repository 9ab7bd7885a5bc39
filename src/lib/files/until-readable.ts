import type { Readable } from 'node:stream'
import { after } from '../time.js'

const EVENTS = ['readable', 'end', 'error', 'close'] as const

/**
 * Resolves when the stream has data, ends or fails, or the signal aborts; resolves with `idle` if none of that happened
 * within `idleMs`, including data that the system has received but this process was too busy to read.
 */
export function untilReadable(
  stream: Readable,
  { signal, idleMs }: { readonly signal?: AbortSignal | undefined; readonly idleMs?: number | undefined },
): Promise<'idle' | 'go'> {
  return new Promise(resolve => {
    const done = (result: 'idle' | 'go') => {
      cancel?.()
      for (const name of EVENTS) stream.off(name, go)
      signal?.removeEventListener('abort', go)
      resolve(result)
    }
    const go = () => done('go')
    for (const name of EVENTS) stream.on(name, go)
    signal?.addEventListener('abort', go)
    // After a stall, timers run before I/O. By the time of the immediate, available data has been read.
    const cancel = idleMs === undefined ? undefined : after(idleMs, () => setImmediate(done, 'idle'))
  })
}
