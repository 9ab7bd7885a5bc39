import { Socket } from 'node:net'
import { errorText } from '../../../core/errors.js'
import { FrameReader, TO_CHILD } from '../../../lib/frames.js'
import { loadErrorText } from '../../../lib/load-module.js'
import { Calls } from './calls.js'
import { loadScript } from './load-script.js'
import type { FromScript, JobDone, JobHead, ScriptData } from './messages.js'
import { scriptError } from './script-error.js'
import { writeFrame } from './write-frame.js'
import { WrittenLines } from './written-lines.js'

/** The program of the process that a script runs in. */

const end = () => process.kill(process.pid, 'SIGKILL')

function tell(message: FromScript, parts?: readonly Uint8Array[]): void {
  try {
    writeFrame(message, parts)
  } catch {
    // The daemon is gone.
    end()
  }
}

// What it writes would get between the lines of the log, or of a destination that writes to standard output.
const written = new WrittenLines(line => tell({ type: 'wrote', line }))
for (const stream of [process.stdout, process.stderr]) {
  stream.write = (text: string | Uint8Array) => {
    written.add(text.toString())
    return true
  }
}

// Node.js warns of stripping types and of `import()` in code, which are tested here with each of its versions.
process.removeAllListeners('warning')
process.on('warning', warning => {
  if (warning.name !== 'ExperimentalWarning') written.add(`${warning.name}: ${warning.message}`)
})

function fail(error: string): void {
  tell({ type: 'failed', error })
  end()
}

process.on('uncaughtException', error => fail(`it failed: ${scriptError(error)}`))
// They are meant for the daemon, which ends this process.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

async function begin(data: ScriptData): Promise<Calls> {
  try {
    const calls = new Calls(await loadScript(data), data, (id, event) => tell({ type: 'at', id, event }))
    tell({ type: 'ready' })
    return calls
  } catch (error) {
    fail(data.file === undefined ? scriptError(error) : loadErrorText(error, data.file))
    throw new Error(`it cannot be loaded: ${errorText(error)}`)
  }
}

let loaded: Promise<Calls> | undefined
const reader = new FrameReader(Number.POSITIVE_INFINITY, head => ({
  most: Number.POSITIVE_INFINITY,
  take: lines => take(JSON.parse(head.toString()), lines),
}))

function take(head: unknown, lines: Uint8Array): void {
  if (loaded) void loaded.then(calls => calls.run({ ...(head as JobHead), lines }, answer))
  else loaded = begin(head as ScriptData)
}

function answer({ starts, ends, to, bytes, ...head }: JobDone): void {
  tell({ type: 'done', ...head }, [asBytes(starts), asBytes(ends), to, bytes])
}

new Socket({ fd: TO_CHILD, readable: true }).on('data', portion => reader.push(portion)).on('close', end)

function asBytes({ buffer, byteOffset, byteLength }: Int32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}
