import fs, { type Dirent } from 'node:fs'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type DiskAnswer, type DiskCall, DONE, type EntryKind, GIVEN_UP, WAITING } from './messages.js'

/** The worker thread of FsThread (thread.ts): makes one synchronous call at a time, however long it takes. */

const { port, flag } = workerData as { port: MessagePort; flag: Int32Array }
const calls = fs as unknown as Record<string, (...args: unknown[]) => unknown>

port.on('message', (call: DiskCall) => {
  const answer = answerOf(call)
  port.postMessage(answer)
  if (isAwaited()) return
  // The caller no longer waits, so nobody knows the descriptor.
  if (call.name === 'openSync' && 'result' in answer) fs.closeSync(answer.result as number)
})
if (isAwaited()) parentPort!.postMessage('ready')

/** Notifies the caller that the result is ready. If the caller no longer waits, ends this thread and returns false. */
function isAwaited(): boolean {
  const was = Atomics.compareExchange(flag, 0, WAITING, DONE)
  if (was === GIVEN_UP) port.close()
  else Atomics.notify(flag, 0)
  return was !== GIVEN_UP
}

function answerOf({ name, args }: DiskCall): DiskAnswer {
  try {
    if (name === 'readSync') return read(...(args as [number, number, number]))
    const result = calls[name]!(...args)
    if (name.endsWith('statSync')) return { stats: result === undefined ? undefined : { ...result } }
    if (Array.isArray(result) && typeof result[0] === 'object') return { entries: result.map(entryOf) }
    return { result }
  } catch (error) {
    const { message, code, errno, syscall, path } = error as NodeJS.ErrnoException
    return { error: { message, code, errno, syscall, path } }
  }
}

function read(fd: number, length: number, at: number): DiskAnswer {
  const bytes = new Uint8Array(length)
  return { result: bytes.slice(0, fs.readSync(fd, bytes, 0, length, at)) }
}

function entryOf(entry: Dirent): { name: string; kind: EntryKind } {
  const kind = entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'other'
  return { name: entry.name, kind }
}
