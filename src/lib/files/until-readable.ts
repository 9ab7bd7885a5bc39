import type { Readable } from 'node:stream'

const EVENTS = ['readable', 'end', 'error', 'close'] as const

/** Resolves when the stream has data, ends or fails, or the signal aborts. */
export function untilReadable(stream: Readable, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = () => {
      for (const name of EVENTS) stream.off(name, done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    for (const name of EVENTS) stream.on(name, done)
    signal.addEventListener('abort', done)
  })
}
