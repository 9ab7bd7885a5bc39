import { ConfigError, errorText } from '../../core/errors.js'
import { printableText } from '../../lib/printable.js'
import { packageVersion } from '../../lib/version.js'
import { type Command, commandsBelow, findCommand, type Io, readCall, UsageError } from './command-line.js'

export const EXIT = { done: 0, failed: 1, usage: 2, config: 78 } as const

const HELP = new Set(['-h', '--help'])
/** Loaded only for help, since the code that measures text takes long to load. */
const help = () => import('./help.js')
const groups = () => import('./groups.js')

/** Runs the command in `argv` and resolves with the exit code. Errors are written to stderr. */
export async function dispatch(argv: readonly string[], commands: readonly Command[], io: Io): Promise<number> {
  try {
    return await obey(argv, commands, io)
  } catch (error) {
    io.stderr.write(`${describe(error, io.env)}\n`)
    if (error instanceof UsageError) return EXIT.usage
    return error instanceof ConfigError ? EXIT.config : EXIT.failed
  }
}

async function obey(argv: readonly string[], commands: readonly Command[], io: Io): Promise<number> {
  const [first, ...rest] = argv
  if (first === undefined) {
    io.stderr.write((await help()).globalHelp(commands))
    return EXIT.usage
  }
  if (HELP.has(first) || (first === 'help' && rest.length === 0)) {
    io.stdout.write((await help()).globalHelp(commands))
    return EXIT.done
  }
  if (first === '-V' || first === '--version') {
    io.stdout.write(`sluice ${packageVersion()}\n`)
    return EXIT.done
  }
  const words = first === 'help' ? rest : argv
  const word = words[0]!
  const below = commandsBelow(word, commands)
  if (!commands.some(({ name }) => name === word)) {
    const { commandsOf, groupOf } = await groups()
    const group = groupOf(word)
    const inside = group ? commandsOf(group, commands) : below
    const asksHelp = HELP.has(words[1] ?? '') || (first === 'help' && words.length === 1)
    if (asksHelp && inside.length > 0) {
      const { familyHelp, groupHelp } = await help()
      io.stdout.write(group ? groupHelp(group, commands) : familyHelp(word, below))
      return EXIT.done
    }
    if (group && inside.length > 0)
      throw new UsageError(`${word} is a group: ${inside.map(({ name }) => `sluice ${name}`).join(', ')}`, word)
  }
  const [command, args] = findCommand(words, commands)
  const end = args.indexOf('--')
  if (first === 'help' || args.slice(0, end < 0 ? undefined : end).some(arg => HELP.has(arg))) {
    const { commandHelp, familyHelp, seeAlso } = await help()
    io.stdout.write(commandHelp(command))
    if (command.name === word && below.length > 0) io.stdout.write(`\n${familyHelp(word, below)}`)
    const group = command.name === word ? (await groups()).groupOf(word) : undefined
    if (group) io.stdout.write(`\n${seeAlso(group)}`)
    return EXIT.done
  }
  return command.run(readCall(command, args, io.env), io)
}

/** An error as one line for people, with its stack if SLUICE_DEBUG=1. */
export function describe(error: unknown, env: NodeJS.ProcessEnv): string {
  return printableText(description(error, env))
}

function description(error: unknown, env: NodeJS.ProcessEnv): string {
  if (error instanceof ConfigError) return error.message
  const text = `sluice: ${readable(error)}`
  if (error instanceof UsageError) {
    return `${text}\nTry: ${error.command === undefined ? 'sluice --help' : `sluice ${error.command} --help`}`
  }
  return env.SLUICE_DEBUG === '1' && error instanceof Error ? `${text}\n${stack(error)}` : text
}

/** Turns `ENOENT: no such file or directory, open '/x'` into `cannot open /x: no such file or directory (ENOENT)`. */
function readable(error: unknown): string {
  const text = errorText(error).trim() || String(error)
  const system = /^([A-Z][A-Z0-9]+): (.+?), (\w+) '(.*?)'/.exec(text)
  return system ? `cannot ${system[3]} ${system[4]}: ${system[2]} (${system[1]})` : text.replace(/\s*\n\s*/g, '; ')
}

function stack(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stack(error.cause)}` : ''
  return `${error.stack ?? error}${cause}`
}
