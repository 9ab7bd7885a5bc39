import type { Command, OptionSpec } from './command-line.js'
import { wrap } from './wrap.js'

/** The texts of `--help`, made from the table of commands. */

const WIDTH = 80

export const ABOUT =
  'sluice ships logs: it reads files, the journal, standard input and the network, limits events by key, delivers them at least once over HTTP or to files, and accounts for every event.'

type Rows = readonly (readonly [string, string])[]

export const GLOBAL_OPTIONS: Rows = [
  ['-h, --help', 'Shows this text; after a command, the help of that command.'],
  ['-V, --version', 'Shows the version.'],
]

export const EXIT_CODES: Rows = [
  ['0', 'Done.'],
  ['1', 'Failed; the reason is on standard error.'],
  ['2', 'The command line is invalid.'],
  ['78', 'The configuration is invalid; each error is on standard error with its file, line and column.'],
]

export const ENVIRONMENT: Rows = [
  ['SLUICE_LOG_LEVEL', 'trace, debug, info (default), warn, error or fatal: what the daemon logs.'],
  ['SLUICE_DEBUG=1', 'Shows the stack of unexpected errors.'],
]

/** Wraps `text`, which follows something as wide as `indent`. */
function wrapped(text: string, indent = ''): string {
  return wrap(indent + text, WIDTH, indent)
    .join('\n')
    .slice(indent.length)
}

/** Two columns; the first is as wide as its longest entry. */
function columns(rows: Rows): string {
  const width = Math.max(...rows.map(([left]) => left.length)) + 2
  const indent = ' '.repeat(width + 2)
  return rows.map(([left, right]) => `  ${left.padEnd(width)}${wrapped(right, indent)}\n`).join('')
}

/** An option as the help shows it: `-c, --config FILE`. */
export function flag(name: string, { short, value }: Pick<OptionSpec, 'short' | 'value'>): string {
  return `${short ? `-${short}, ` : ''}--${name}${value ? ` ${value}` : ''}`
}

/** How to call it: `sluice run --config FILE`. */
export function usage(command: Command): string {
  const parts = ['sluice', command.name]
  for (const [name, spec] of Object.entries(command.options)) {
    const text = flag(name, { ...(spec.value ? { value: spec.value } : {}) })
    const shown = spec.operand ? `[--${name}] ${spec.value}` : text
    parts.push(spec.required ? shown : `[${shown}]`)
  }
  if (command.operands) {
    const { name, min, max } = command.operands
    const text = max > 1 && !name.includes(' ') ? `${name}…` : name
    parts.push(min === 0 ? `[${text}]` : text)
  }
  return parts.join(' ')
}

/** The options of a command, each with its full description. */
export function optionRows(command: Command): Rows {
  return Object.entries(command.options).map(([name, spec]) => [
    flag(name, spec),
    `${spec.text}${spec.required ? ' Required.' : ''}`,
  ])
}

export function commandHelp(command: Command): string {
  return [
    `${wrapped(command.summary)}\n`,
    `Usage: ${wrapped(usage(command), '       ')}\n`,
    ...(command.text ?? []).map(paragraph => `${wrapped(paragraph)}\n`),
    ...(command.operands ? [`Operands:\n${columns([[command.operands.name, command.operands.text]])}`] : []),
    `Options:\n${columns([...optionRows(command), ['-h, --help', 'Shows this text.']])}`,
    `Examples:\n${command.examples.map(({ title, line }) => `  # ${title}\n  ${line}\n`).join('')}`,
  ].join('\n')
}

/** Lists the commands that begin with `word`. */
export function groupHelp(word: string, commands: readonly Command[]): string {
  return [
    `Commands of sluice ${word}:\n${columns(commands.map(({ name, summary }) => [name, summary] as const))}`,
    `The options of each: sluice ${commands[0]!.name} --help\n`,
  ].join('\n')
}

export function globalHelp(commands: readonly Command[]): string {
  return [
    wrapped(`${ABOUT}\n`),
    'Usage: sluice COMMAND [OPTION…]\n',
    'To see it work: sluice quickstart\nThe options of a command: sluice COMMAND --help\n',
    `Commands:\n${columns(commands.map(({ name, summary }) => [name, summary] as const))}`,
    `Options:\n${columns(GLOBAL_OPTIONS)}`,
    `Exit codes:\n${columns(EXIT_CODES)}`,
    `Environment:\n${columns(ENVIRONMENT)}`,
  ].join('\n')
}
