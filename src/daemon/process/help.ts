import type { Command, OptionSpec } from './command-line.js'
import { type CommandGroup, commandsOf, FAMILIES, GROUPS } from './groups.js'
import { wrapBehind } from './wrap.js'

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
  [
    'SLUICE_CONFIG',
    'The configuration, for commands that get no FILE. For commands that inspect a daemon: its configuration.',
  ],
  ['SLUICE_SOCKET', 'The socket of the daemon, for commands that get neither --config nor --socket.'],
  ['SLUICE_URL', 'The address of the service, for `api`, `fleet` and `quickstart`.'],
  ['SLUICE_ACCESS_KEY', 'The access key for the service.'],
  ['SLUICE_CA_FILE', 'PEM file of the certificate authorities to trust when connecting to the service.'],
  ['SLUICE_LOG_LEVEL', 'trace, debug, info (default), warn, error or fatal: the lowest level that the daemon logs.'],
  ['SLUICE_DEBUG=1', 'Shows the stack of unexpected errors.'],
  ['STATE_DIRECTORY', 'The default of data_dir, set by systemd.'],
  ['CREDENTIALS_DIRECTORY', 'The folder of the credentials that configurations name, set by systemd.'],
  [
    'XDG_CONFIG_HOME, XDG_STATE_HOME',
    'Of a user without systemd: sluice/sluice.yaml in the first folder (default ~/.config) is the default configuration of commands that inspect a daemon. The default data_dir of this file is sluice, of another file NAME.yaml beside it sluice@NAME, in the second folder (default ~/.local/state).',
  ],
  ['NO_COLOR', 'Disables colors.'],
]

const wrapped = (text: string, indent = '') => wrapBehind(text, WIDTH, indent)

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

export function usage(command: Command): string {
  const parts = ['sluice', command.name]
  for (const [name, spec] of Object.entries(command.options)) {
    if (spec.more) continue
    const text = flag(name, { ...(spec.value ? { value: spec.value } : {}) })
    const shown = spec.operand ? `[--${name}] ${spec.value}` : text
    parts.push(spec.required ? shown : `[${shown}]`)
  }
  if (Object.values(command.options).some(({ more }) => more)) parts.push('[OPTION…]')
  if (command.operands) {
    const { name, min, max } = command.operands
    const text = max > 1 && !name.includes(' ') ? `${name}…` : name
    parts.push(min === 0 ? `[${text}]` : text)
  }
  return parts.join(' ')
}

/**
 * The options of a command, with full descriptions. If `more` is true, returns only the options listed under "More
 * options". If `more` is false, returns only the other options.
 */
export function optionRows(command: Command, more?: boolean): Rows {
  return Object.entries(command.options)
    .filter(([, spec]) => more === undefined || (spec.more ?? false) === more)
    .map(([name, spec]) => {
      const more = spec.env ? ` Default: $${spec.env}.` : spec.required ? ' Required.' : ''
      return [flag(name, spec), spec.text + more]
    })
}

export function commandHelp(command: Command): string {
  const more = optionRows(command, true)
  const help: Rows = [['-h, --help', 'Shows this text.']]
  const options = [...optionRows(command, false), ...(more.length > 0 ? [] : help)]
  return [
    `${wrapped(command.summary)}\n`,
    `Usage: ${wrapped(usage(command), '       ')}\n`,
    ...(command.text ?? []).map(paragraph => `${wrapped(paragraph)}\n`),
    ...(command.operands ? [`Operands:\n${columns([[command.operands.name, command.operands.text]])}`] : []),
    `Options:\n${columns(options)}`,
    ...(more.length > 0 ? [`More options:\n${columns([...more, ...help])}`] : []),
    `Examples:\n${command.examples.map(({ title, line }) => `  # ${title}\n  ${line}\n`).join('')}`,
  ].join('\n')
}

const list = (commands: readonly Command[]) => columns(commands.map(({ name, summary }) => [name, summary] as const))
const helpOf = (command: Command) => `To see the options of a command: sluice ${command.name} --help\n`

export function familyHelp(word: string, commands: readonly Command[]): string {
  return [`Commands of sluice ${word}:\n${list(commands)}`, helpOf(commands[0]!)].join('\n')
}

export function groupHelp(group: CommandGroup, commands: readonly Command[]): string {
  const own = commandsOf(group, commands)
  const parts = [`${group.title}:\n${list(own)}`]
  if (group.row !== undefined) {
    parts.push(`Options without a command:\n${columns(GLOBAL_OPTIONS)}`)
    parts.push(`Exit codes:\n${columns(EXIT_CODES)}`, `Environment:\n${columns(ENVIRONMENT)}`)
  }
  return [...parts, helpOf(own[0]!)].join('\n')
}

/** For a command that has the same name as its group: the other commands of the group. */
export function seeAlso(group: CommandGroup): string {
  return `See also: ${group.words
    .filter(word => word !== group.name)
    .map(word => `sluice help ${word}`)
    .join(', ')}\n`
}

/** Lists the groups. Each command has its own row, but commands that begin with the same word share a row. */
function overview(commands: readonly Command[]): string {
  const rows = GROUPS.flatMap(({ name, words, row }) => {
    const texts = words.flatMap(word => {
      const text = FAMILIES[word] ?? commands.find(command => command.name === word)?.summary
      return text === undefined ? [] : [`${word.padEnd(12)}${text}`]
    })
    return (row === undefined ? texts : [row]).map((text, i) => `${(i === 0 ? name : '').padEnd(10)}${text}\n`)
  })
  return rows.join('')
}

/** The text fits a terminal of 24 lines and 80 columns. */
export function globalHelp(commands: readonly Command[]): string {
  return [
    'sluice ships logs: it throttles them by key, and accounts for every event.',
    'Usage: sluice COMMAND [OPTION…]\n',
    overview(commands),
    'Details: sluice help COMMAND or GROUP. Exit codes, environment: sluice help more\n',
  ].join('\n')
}
