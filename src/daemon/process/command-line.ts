import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { ConfigError } from '../../core/errors.js'
import { NearestName } from '../../lib/nearest.js'
import { shellWord } from '../../lib/shell-word.js'

/** The kind of a value, for shell completion: a path, the id of a component, or one of several words. */
export type Takes = 'file' | 'folder' | 'component' | 'source' | 'throttle' | 'destination' | readonly string[]

export interface OptionSpec {
  /** The name of the value in the help: `FILE`. Undefined: the option is a switch. */
  readonly value?: string
  readonly short?: string
  readonly required?: true
  /** Whether the option may occur several times. If so, its value is a list. */
  readonly many?: true
  /** Whether the user may also write the value without the option's name, before all operands. */
  readonly operand?: true
  /** The environment variable that gives the value if the command line does not. */
  readonly env?: string
  /** Whether the help lists the option under "More options", after the options that most people need. */
  readonly more?: true
  /** Not needed if `value` is FILE or FOLDER. */
  readonly takes?: Takes
  readonly text: string
}
export const isSwitch = ({ value }: OptionSpec): boolean => value === undefined
export type OptionSpecs = Readonly<Record<string, OptionSpec>>

export interface Operands {
  /** The name of one operand: `FILE`. */
  readonly name: string
  readonly min: number
  readonly max: number
  /** If the user gives fewer than `min` operands, the command itself reports the possible values. */
  readonly mayMiss?: true
  readonly takes?: Takes
  readonly text: string
}

type Value<O extends OptionSpec> = O extends { value: string }
  ? O extends { many: true }
    ? readonly string[]
    : O extends { required: true }
      ? string
      : string | undefined
  : boolean

type AnyOptions = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

/** A parsed command line, with each option's value by name. A missing option is false, an empty list or undefined. */
export interface ParsedCommand<S extends OptionSpecs> {
  readonly options: string extends keyof S ? AnyOptions : { readonly [N in keyof S]: Value<S[N]> }
  readonly operands: readonly string[]
}

/** The streams and variables of the process; tests can replace them. */
export interface Io {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly env: NodeJS.ProcessEnv
}

export interface Command<S extends OptionSpecs = OptionSpecs> {
  /** One word, or several: `docs config`. */
  readonly name: string
  readonly summary: string
  /** Further paragraphs for the command's help. */
  readonly text?: readonly string[]
  readonly options: S
  readonly operands?: Operands
  /** Advice on too many operands. `more`: the extra ones. `line`: the command line without `more`. */
  readonly instead?: (more: readonly string[], line: string) => string
  readonly examples: readonly { readonly title: string; readonly line: string }[]
  /**
   * Whether the command writes events to stdout. If so, a closed stdout is a failure. Other commands may be followed by
   * `| head`.
   */
  readonly ships?: true
  /** Resolves with the exit code. */
  run(call: ParsedCommand<S>, io: Io): Promise<number>
}

/** Declares a command. `run` knows the types of its options, but the table of commands does not need these types. */
export const command = <const S extends OptionSpecs>(spec: Command<S>): Command => spec as unknown as Command

/** An error in the command line; exit code 2. */
export class UsageError extends Error {
  readonly code = 'SLUICE_USAGE'
  /** The message names the help of this command, or the general help if undefined. */
  readonly command: string | undefined
  constructor(message: string, command?: string) {
    super(message)
    this.command = command
  }
}

/** The path in an environment variable. Undefined if the variable is not set. Throws ConfigError if nothing is there. */
export function pathIn(name: string, env: Io['env']): string | undefined {
  const path = env[name] || undefined
  if (path === undefined || existsSync(path)) return path
  throw new ConfigError([{ file: path, line: 1, column: 1, path: '', message: `does not exist; ${name} names it` }])
}

/** Parses the number that an option got; throws UsageError. */
export function wholeNumber(text: string, option: string, command: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text)
  const must = 'must be a whole number of at least 1 in digits, as in 100'
  throw new UsageError(`--${option} ${must}, not ${JSON.stringify(text)}`, command)
}

/** `Command.instead` for commands that read standard input. */
export function fromStdin(files: readonly string[], line: string): string {
  const names = files.filter(file => file !== '-').map(shellWord)
  const redirected = names.length === 1 ? `${line} < ${names[0]}` : `cat ${names.join(' ')} | ${line}`
  return `it reads standard input: ${names.length === 0 ? line : redirected}`
}

function suggest(word: string, candidates: readonly string[]): string {
  const near = new NearestName().find(word, candidates)
  return near === undefined ? '' : `; did you mean ${near}?`
}

/** The commands of several words that begin with `word`, such as `admin init`. */
export function commandsBelow(word: string | undefined, commands: readonly Command[]): readonly Command[] {
  return commands.filter(({ name }) => name.startsWith(`${word} `))
}

/** By name: advice for subcommands that other daemons have. */
const OF_SYSTEMD: Readonly<Record<string, string>> = {
  start: 'sluice run starts the daemon, or systemctl start sluice',
  stop: 'systemctl stop sluice stops the daemon, and so does SIGTERM',
  restart: 'systemctl restart sluice',
  reload: 'systemctl reload sluice reads the configuration again, and so does SIGHUP',
}

/** The command that `argv` begins with, and the remaining arguments; throws UsageError. */
export function findCommand(argv: readonly string[], commands: readonly Command[]): [Command, string[]] {
  const found = commands.find(({ name }) => name.split(' ').every((word, i) => argv[i] === word))
  if (found) return [found, argv.slice(found.name.split(' ').length)]
  const word = argv[0] ?? ''
  const meant = word.startsWith('--') ? new NearestName().find(word, ['--version', '--help']) : undefined
  if (meant !== undefined) throw new UsageError(`unknown option ${word}; did you mean ${meant}?`)
  if (word.startsWith('-')) throw new UsageError(`expected a command before ${word}, as in: sluice run ${word}`)
  const names = commands.map(({ name }) => name)
  const below = commandsBelow(word, commands).map(({ name }) => `sluice ${name}`)
  if (below.length > 0) throw new UsageError(`${word} is incomplete: ${below.join(', ')}`, word)
  const instead = OF_SYSTEMD[word]
  throw new UsageError(`unknown command ${word}${instead === undefined ? suggest(word, names) : `; ${instead}`}`)
}

/** Parses the arguments that follow the name of `command`; throws UsageError. */
export function readCall(command: Command, args: readonly string[], env: Io['env'] = {}): ParsedCommand<OptionSpecs> {
  const fail = (message: string): never => {
    throw new UsageError(message, command.name)
  }
  const options: Record<string, string | boolean | readonly string[] | undefined> = {}
  for (const [name, spec] of Object.entries(command.options))
    options[name] = isSwitch(spec) ? false : spec.many ? [] : undefined
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(command.options).map(([name, spec]) => {
        const type = isSwitch(spec) ? 'boolean' : 'string'
        return [name, spec.short ? { type, short: spec.short } : { type }]
      }),
    ),
    strict: false,
    tokens: true,
  })
  const seen = new Set<string>()
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const { name, rawName, value } = token
    const spec = Object.hasOwn(command.options, name) ? command.options[name]! : undefined
    if (!spec) {
      const names = Object.keys(command.options).map(known => `--${known}`)
      return fail(`unknown option ${rawName}${suggest(rawName, [...names, '--help'])}`)
    }
    if (seen.has(name) && !spec.many) fail(`--${name} is given twice`)
    seen.add(name)
    if (isSwitch(spec) && value !== undefined) fail(`${rawName} takes no value`)
    const looksLikeOption = !token.inlineValue && value !== undefined && /^-./.test(value)
    if (!isSwitch(spec) && (value === undefined || value === '' || looksLikeOption)) {
      const hint = looksLikeOption ? `; a value that begins with a dash is written ${rawName}=${value}` : ''
      fail(`${rawName} needs a value: ${rawName} ${spec.value}${hint}`)
    }
    const before = options[name]
    options[name] = isSwitch(spec) ? true : Array.isArray(before) ? [...before, value!] : value
  }
  const { name = '', min = 0, max = 0, mayMiss } = command.operands ?? {}
  for (const [name, spec] of Object.entries(command.options)) {
    // With the variable, an event that is an operand is not taken as the path of a configuration.
    const isPath = !(spec.env && env[spec.env]) || !positionals[0]?.startsWith('{')
    if (spec.operand && options[name] === undefined && positionals.length > min && isPath)
      options[name] = positionals.shift()
    if (spec.env) options[name] ??= pathIn(spec.env, env)
    if (spec.required && options[name] === undefined)
      fail(spec.operand ? `${spec.value} is missing: ${spec.text}` : `--${name} ${spec.value} is missing`)
  }
  if (positionals.length > max) {
    const more = positionals.slice(max)
    const instead = command.instead?.(more, lineWithout(more.length, command, args, tokens))
    fail(`unexpected ${JSON.stringify(more[0])}${instead ? `; ${instead}` : ''}`)
  }
  if (positionals.length < min && !mayMiss) fail(`${name.split(' ')[positionals.length] ?? name} is missing`)
  return { options, operands: positionals }
}

/** The command line without its last `count` operands. */
function lineWithout(
  count: number,
  { name }: Command,
  args: readonly string[],
  tokens: readonly { readonly kind: string; readonly index: number }[],
): string {
  const operands = tokens.filter(({ kind }) => kind === 'positional').map(({ index }) => index)
  const left = operands.slice(-count)
  return [`sluice ${name}`, ...args.filter((_, i) => !left.includes(i)).map(shellWord)].join(' ')
}
