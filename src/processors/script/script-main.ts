import { parentPort, workerData } from 'node:worker_threads'
import { loadErrorText } from '../../lib/load-module.js'
import { Calls } from './calls.js'
import { loadScript } from './load-script.js'
import type { FromScript, Job, ScriptData } from './messages.js'
import { scriptError } from './script-error.js'
import { WrittenLines } from './written-lines.js'

/** The program of the thread that a script runs in. */

const data = workerData as ScriptData
const port = parentPort!
const post = (message: FromScript, transfer: readonly ArrayBuffer[] = []) => port.postMessage(message, transfer)

// What it writes would get between the lines of the log, or of a destination that writes to standard output.
const written = new WrittenLines(line => post({ type: 'wrote', line }))
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

try {
  const calls = new Calls(await loadScript(data), data)
  port.on('message', (job: Job) => {
    calls.run(job, done => post(done, [done.bytes.buffer as ArrayBuffer]))
  })
  post({ type: 'ready' })
} catch (error) {
  post({ type: 'failed', error: data.file === undefined ? scriptError(error) : loadErrorText(error, data.file) })
}
