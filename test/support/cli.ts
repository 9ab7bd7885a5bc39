import { Readable } from 'node:stream'
import { commands } from '../../src/cli/commands.js'
import { dispatch } from '../../src/daemon/process/dispatch.js'
import { commandIo } from './command-io.js'

export interface CommandOptions {
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
  readonly stdin?: string
}

let last: Promise<unknown> = Promise.resolve()

/**
 * Runs a command of the program in this process, which takes a tenth of what a process of its own does. Calls come one
 * after the other, since a process has one working directory. For `run`, `serve` and signals there is `sluice`.
 */
export function command(args: readonly string[], options: CommandOptions = {}) {
  const call = last.then(() => run(args, options))
  last = call.catch(() => {})
  return call
}

async function run(args: readonly string[], { cwd, env, stdin = '' }: CommandOptions) {
  const variables = { ...process.env, SLUICE_URL: undefined, SLUICE_ACCESS_KEY: undefined, ...env }
  const { io, text } = commandIo(variables, Readable.from([Buffer.from(stdin)]))
  const before = process.cwd()
  if (cwd !== undefined) process.chdir(cwd)
  try {
    const code = await dispatch(args, commands, io)
    return { code, ...text }
  } finally {
    process.chdir(before)
  }
}
