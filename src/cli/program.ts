import { clearTimeout, setTimeout } from 'node:timers'
import { type Command, findCommand, type Io } from '../daemon/process/command-line.js'
import { describe, dispatch, EXIT } from '../daemon/process/dispatch.js'
import { isTolerated } from '../daemon/process/faults.js'
import { textStderr } from '../daemon/process/stderr.js'
import { type FileSystems, fileSystems } from '../lib/files/disk/file-systems.js'
import { nodeProblem } from '../lib/version.js'
import { runCommand } from './commands/run.js'

/** Sets up the process: its streams, the handling of unexpected errors, and its end. */

/** If a command leaves handles open, they keep the process alive for at most this time after the command. */
const LEFTOVER_MS = 250

/** Runs the command in the arguments and ends the process. */
export async function runProgram(exit: (code?: number) => never): Promise<void> {
  const { argv, env, stdout, stderr } = process
  const args = argv.slice(2)
  const output = textStderr(stderr, env)
  // Without the modules of the other commands, the daemon starts sooner.
  let commands: readonly Command[] = [runCommand]

  process.on('uncaughtException', error => {
    if (isTolerated(error)) return
    output.write(`${describe(error, env)}\n`)
    void exitWhenDone(() => exit(EXIT.failed), output)
  })
  // A reader that exits early (`| head`) has read enough. But if it gets the events of a run, its exit is a failure.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    // A run that writes events to stdout has its own listener, which ends the run gracefully.
    if (stdout.listenerCount('error') > 1) return
    if (!ships(args, commands)) exit(EXIT.done)
    output.write('sluice: standard output was closed; events that were not written will be read again\n')
    exit(EXIT.failed)
  })
  stderr.on('error', () => {})

  const io: Io = {
    stdout,
    stderr: output,
    env,
    // stdin is opened only by commands that read it.
    get stdin() {
      return process.stdin
    },
  }
  const problem = nodeProblem()
  if (problem) stderr.write(`sluice: ${problem}\n`)
  if (args[0] !== runCommand.name) ({ commands } = await import('./commands.js'))
  if (args[0] === 'complete') {
    const { complete } = await import('./complete.js')
    process.exitCode = await complete(args.slice(1), commands, io).catch(() => EXIT.failed)
  } else process.exitCode = problem ? EXIT.failed : await dispatch(args, commands, io)
  // Only a run limits the wait for its output, because other commands may have a slow reader, such as a pager. Events
  // that a run could not write are read again after the next start.
  const limitMs = ships(args, commands) ? LEFTOVER_MS : undefined
  for (const stream of [stdout, stderr]) await flushed(stream, limitMs)
  setTimeout(() => void exitWhenDone(exit, output), LEFTOVER_MS).unref()
}

function ships(args: readonly string[], commands: readonly Command[]): boolean {
  try {
    return findCommand(args, commands)[0].ships === true
  } catch {
    return false
  }
}

/** Resolves when `stream` has written everything, or after `limitMs`. */
function flushed(stream: NodeJS.WritableStream, limitMs: number | undefined): Promise<void> {
  return new Promise(resolve => {
    const timer = limitMs === undefined ? undefined : setTimeout(resolve, limitMs)
    stream.write('', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/**
 * Ends the process when all work is done. On exit, Node.js waits for calls in other threads. If such a call accesses an
 * unreachable file server, the call never returns, and only a signal ends the process.
 */
export async function exitWhenDone(
  exit: () => void,
  stderr: { write(text: string): unknown },
  systems: FileSystems = fileSystems,
): Promise<void> {
  const mount = await systems.stuck()
  if (mount === undefined) return exit()
  stderr.write(
    `sluice: a call to the file system at ${mount} does not return; everything else is done, so the process kills itself\n`,
  )
  process.kill(process.pid, 'SIGKILL')
}
