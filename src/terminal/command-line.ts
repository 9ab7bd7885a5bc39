import { parseArgs } from 'node:util'
import { NearestName } from '../lib/nearest.js'

/** What a command may be given behind its name, and the reading of it. */

/** What a value is, for whoever completes it in a shell: a path, the id of a component, or one of some words. */
export type Takes = 'file' | 'folder' | 'component' | 'source' | 'throttle' | 'destination' | readonly string[]

export interface OptionSpec {
  readonly type: 'string' | 'boolean'
  /** What the value is called in the help: `FILE`. */
  readonly value?: string
  readonly short?: string
  readonly required?: true
  /** Whether the value may be given without the name of the option, before all operands. */
  readonly operand?: true
  /** Not needed where `value` is FILE or FOLDER. */
  readonly takes?: Takes
  readonly text: string
}
export type OptionSpecs = Readonly<Record<string, OptionSpec>>

export interface Operands {
  /** Singular: `FILE`. */
  readonly name: string
  readonly min: number
  readonly max: number
  /** The command itself says what there is when fewer than `min` are given. */
  readonly mayMiss?: true
  readonly takes?: Takes
  readonly text: string
}

type Value<O extends OptionSpec> = O['type'] extends 'boolean'
  ? boolean
  : O extends { required: true }
    ? string
    : string | undefined

type AnyOptions = Readonly<Record<string, string | boolean | undefined>>

/** A command line as read: every option of the command by name, absent ones false or undefined. */
export interface Call<S extends OptionSpecs> {
  readonly options: string extends keyof S ? AnyOptions : { readonly [N in keyof S]: Value<S[N]> }
  readonly operands: readonly string[]
}

/** The streams and variables of the process, so that a test can stand in for them. */
export interface Io {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly env: NodeJS.ProcessEnv
}

export interface Command<S extends OptionSpecs = OptionSpecs> {
  /** May have two words: `docs config`. */
  readonly name: string
  readonly summary: string
  /** More, for its help: one string a paragraph. */
  readonly text?: readonly string[]
  readonly options: S
  readonly operands?: Operands
  readonly examples: readonly { readonly title: string; readonly line: string }[]
  /** Whether it writes the user's events to stdout: then a closed stdout is a failure, not somebody's `head`. */
  readonly ships?: true
  /** Resolves with the exit code. */
  run(call: Call<S>, io: Io): Promise<number>
}

/** Declares a command: `run` sees the types of its options, the table forgets them. */
export const command = <const S extends OptionSpecs>(spec: Command<S>): Command => spec as unknown as Command

/** The command line cannot be understood; exit code 2. */
export class UsageError extends Error {
  readonly code = 'SLUICE_USAGE'
  /** The command whose help says more; undefined: the help of all. */
  readonly command: string | undefined
  constructor(message: string, command?: string) {
    super(message)
    this.command = command
  }
}

function suggest(word: string, candidates: readonly string[]): string {
  const near = new NearestName().find(word, candidates)
  return near === undefined ? '' : `; did you mean ${near}?`
}

/** The commands whose first word is `word` and whose name has more words, such as `admin init`. */
export function commandsBelow(word: string | undefined, commands: readonly Command[]): readonly Command[] {
  return commands.filter(({ name }) => name.startsWith(`${word} `))
}

/** The command that `argv` begins with, and what is behind its name; throws UsageError. */
export function findCommand(argv: readonly string[], commands: readonly Command[]): [Command, string[]] {
  const found = commands.find(({ name }) => name.split(' ').every((word, i) => argv[i] === word))
  if (found) return [found, argv.slice(found.name.split(' ').length)]
  const word = argv[0] ?? ''
  if (word.startsWith('-')) throw new UsageError(`expected a command before ${word}, as in: sluice run ${word}`)
  const names = commands.map(({ name }) => name)
  const below = commandsBelow(word, commands).map(({ name }) => `sluice ${name}`)
  if (below.length > 0) throw new UsageError(`${word} is incomplete: ${below.join(', ')}`, word)
  throw new UsageError(`unknown command ${word}${suggest(word, names)}`)
}

/** Reads what stands behind the name of `command`; throws UsageError. */
export function readCall(command: Command, args: readonly string[]): Call<OptionSpecs> {
  const fail = (message: string): never => {
    throw new UsageError(message, command.name)
  }
  const options: Record<string, string | boolean | undefined> = {}
  for (const [name, spec] of Object.entries(command.options))
    options[name] = spec.type === 'boolean' ? false : undefined
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(command.options).map(([name, { type, short }]) => [name, short ? { type, short } : { type }]),
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
    if (seen.has(name)) fail(`--${name} is given twice`)
    seen.add(name)
    if (spec.type === 'boolean' && value !== undefined) fail(`${rawName} takes no value`)
    const looksLikeOption = !token.inlineValue && value !== undefined && /^-./.test(value)
    if (spec.type === 'string' && (value === undefined || value === '' || looksLikeOption)) {
      const hint = looksLikeOption ? `; a value that begins with a dash is written ${rawName}=${value}` : ''
      fail(`${rawName} needs a value: ${rawName} ${spec.value}${hint}`)
    }
    options[name] = spec.type === 'boolean' ? true : value
  }
  const { name = '', min = 0, max = 0, mayMiss } = command.operands ?? {}
  for (const [name, spec] of Object.entries(command.options)) {
    if (spec.operand && options[name] === undefined && positionals.length > min) options[name] = positionals.shift()
    if (spec.required && options[name] === undefined)
      fail(spec.operand ? `${spec.value} is missing: ${spec.text}` : `--${name} ${spec.value} is missing`)
  }
  if (positionals.length > max) fail(`unexpected ${JSON.stringify(positionals[max])}`)
  if (positionals.length < min && !mayMiss) fail(`${name} is missing`)
  return { options, operands: positionals }
}
