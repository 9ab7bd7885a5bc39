import { Readable, Writable } from 'node:stream'
import { commands } from '../../src/cli/commands.js'
import type { Io } from '../../src/daemon/process/command-line.js'
import { dispatch } from '../../src/daemon/process/dispatch.js'

/** Calls `sluice simulate` in this process. */
export async function callSimulate(args: readonly string[], input: string | Buffer = '') {
  const text = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof text) =>
    new Writable({
      highWaterMark: 100,
      write(chunk, _encoding, done) {
        text[name] += chunk
        setImmediate(done)
      },
    })
  const io = { stdin: Readable.from([Buffer.from(input)]), stdout: stream('stdout'), stderr: stream('stderr'), env: {} }
  const code = await dispatch(['simulate', ...args], commands, io as unknown as Io)
  await new Promise(resolve => setImmediate(resolve))
  return { code, ...text }
}
