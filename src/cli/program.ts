import { clearTimeout, setTimeout } from 'node:timers'
import { nodeProblem } from '../lib/version.js'
import { findCommand, type Io } from '../terminal/command-line.js'
import { describe, dispatch, EXIT } from '../terminal/dispatch.js'
import { endProcess } from '../terminal/end.js'
import { textStderr } from '../terminal/stderr.js'
import { commands } from './commands.js'

/** The process: its streams, its last resort for errors, its end. */

/** How long handles that a finished command left open may keep the process. */
const LEFTOVER_MS = 250

/** Does what the arguments say, and sees the process to its end. */
export async function runProgram(exit: (code?: number) => never): Promise<void> {
  const { argv, env, stdout, stderr } = process
  const args = argv.slice(2)
  const output = textStderr(stderr, env)

  process.on('uncaughtException', error => {
    output.write(`${describe(error, env)}\n`)
    void endProcess(() => exit(EXIT.failed), output)
  })
  // A reader that left early (`| head`) wants no more; events that have nowhere to go are a failure.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    // A run that writes events to it listens as well, and ends in order.
    if (stdout.listenerCount('error') > 1) return
    if (!ships(args)) exit(EXIT.done)
    output.write('sluice: the reader of standard output is gone; what it did not get will be read again\n')
    exit(EXIT.failed)
  })
  stderr.on('error', () => {})

  const io: Io = {
    stdout,
    stderr: output,
    env,
    // Opened by those who read it only.
    get stdin() {
      return process.stdin
    },
  }
  const problem = nodeProblem()
  if (problem) stderr.write(`sluice: ${problem}\n`)
  process.exitCode = problem ? EXIT.failed : await dispatch(args, commands, io)
  // A reader may take its time, as a pager does; what a run could not write is read again after the next start.
  const limitMs = ships(args) ? LEFTOVER_MS : undefined
  for (const stream of [stdout, stderr]) await flushed(stream, limitMs)
  setTimeout(() => void endProcess(exit, output), LEFTOVER_MS).unref()
}

function ships(args: readonly string[]): boolean {
  try {
    return findCommand(args, commands)[0].ships === true
  } catch {
    return false
  }
}

/** Resolves when everything is written, or after `limitMs`. */
function flushed(stream: NodeJS.WritableStream, limitMs: number | undefined): Promise<void> {
  return new Promise(resolve => {
    const timer = limitMs === undefined ? undefined : setTimeout(resolve, limitMs)
    stream.write('', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
