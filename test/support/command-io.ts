import { Writable } from 'node:stream'
import type { Io } from '../../src/daemon/process/command-line.js'

/** Streams for a command that is called in this process, and what it has written to them so far. */
export function commandIo(env: NodeJS.ProcessEnv, stdin: NodeJS.ReadableStream) {
  const text = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof text) =>
    new Writable({
      write(chunk, _encoding, done) {
        text[name] += chunk
        done()
      },
    })
  const io = { stdin, stdout: stream('stdout'), stderr: stream('stderr'), env } as unknown as Io
  return { io, text }
}
