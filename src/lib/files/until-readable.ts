import type { Readable } from 'node:stream'
import { after } from '../time.js'

const EVENTS = ['readable', 'end', 'error', 'close'] as const

/**
 * Until there is something to read, or the end, an error or an abort; `idle` when none of it came in `idleMs`, not even
 * what the system has received meanwhile and this process was too busy to take.
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
    // A process that stood still runs its timers first. By the time of the immediate it has taken what is there.
    const cancel = idleMs === undefined ? undefined : after(idleMs, () => setImmediate(done, 'idle'))
  })
}
