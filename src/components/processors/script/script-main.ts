import { writevSync } from 'node:fs'
import { Socket } from 'node:net'
import { constants } from 'node:vm'
import { errorText } from '../../../core/errors.js'
import { FROM_CHILD, FrameReader, jsonHead, TO_CHILD } from '../../../lib/frames.js'
import { loadErrorText, loadModule } from '../../../lib/load-module.js'
import { Calls, type ScriptFunction } from './calls.js'
import type { FromScript, JobDone, JobHead, ScriptData } from './messages.js'
import { scriptError } from './script-error.js'
import { compiledScript } from './syntax.js'
import { WrittenLines } from './written-lines.js'

/** The program of the process that a script runs in. */

const end = () => process.kill(process.pid, 'SIGKILL')

/**
 * Writes a message. Does not return before the daemon has taken the whole message, because the process may end directly
 * after the call. Throws if the daemon has ended.
 */
function writeFrame(head: object, parts: readonly Uint8Array[] = []): void {
  const size = parts.reduce((sum, part) => sum + part.byteLength, 0)
  let rest = [jsonHead(head, size), ...parts].filter(part => part.byteLength > 0)
  while (rest.length > 0) {
    let written = writevSync(FROM_CHILD, rest)
    rest = rest.flatMap(part => {
      const left = part.subarray(Math.min(written, part.byteLength))
      written -= part.byteLength - left.byteLength
      return left.byteLength > 0 ? [left] : []
    })
  }
}

function tell(message: FromScript, parts?: readonly Uint8Array[]): void {
  try {
    writeFrame(message, parts)
  } catch {
    // The daemon is gone.
    end()
  }
}

// Captures the script's output, which would otherwise mix with the log or a destination writing to standard output.
const written = new WrittenLines(line => tell({ type: 'wrote', line }))
for (const stream of [process.stdout, process.stderr]) {
  stream.write = (text: string | Uint8Array, ...rest: unknown[]) => {
    written.add(text.toString())
    const done = rest.at(-1)
    if (typeof done === 'function') process.nextTick(done)
    return true
  }
}

// Hides warnings that type stripping or `import()` in code is experimental. Tests cover both in each Node.js version.
process.removeAllListeners('warning')
process.on('warning', warning => {
  if (warning.name !== 'ExperimentalWarning') written.add(`${warning.name}: ${warning.message}`)
})

function fail(error: string): void {
  tell({ type: 'failed', error })
  end()
}

process.on('uncaughtException', error => fail(`it failed: ${scriptError(error)}`))
// Ignored, because these signals are meant for the daemon. The daemon ends this process.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

/** The option `code` has no file, so its `import()` finds only modules of Node.js and absolute paths. */
const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER
const run = (code: string): unknown => compiledScript(code, { importModuleDynamically }).runInThisContext()

async function loadScript({ code, file }: Pick<ScriptData, 'code' | 'file'>): Promise<ScriptFunction> {
  const found = file === undefined ? run(code!) : (await loadModule(file)).default
  if (typeof found === 'function') return found as ScriptFunction
  throw new Error(
    file === undefined
      ? 'it must be a function, as in event => ({ ...event, n: event.n + 1 })'
      : `the default export of ${file} must be a function, as in export default event => event`,
  )
}

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
