import type { Command, OptionSpec, Takes } from '../../daemon/process/command-line.js'

/** A model of the command line for shell completion, made from the table of commands. */

export interface OptionModel {
  readonly long: string
  readonly short: string | undefined
  /** Name of the value; undefined: it takes none. */
  readonly value: string | undefined
  readonly takes: Takes | undefined
  readonly text: string
}

export interface CommandModel {
  /** `run`, or `admin init`. */
  readonly name: string
  readonly summary: string
  readonly options: readonly OptionModel[]
  /** The kind of the operands; undefined: nothing to complete. */
  readonly takes: Takes | undefined
  readonly operand: string | undefined
  /** Whether there may be several operands. */
  readonly many: boolean
}

export interface WordModel {
  readonly word: string
  readonly summary: string
}

export interface CommandLineModel {
  readonly commands: readonly CommandModel[]
  /** Possible first words, without `help` and options. */
  readonly first: readonly WordModel[]
  /** Possible second words by first word. */
  readonly second: ReadonlyMap<string, readonly WordModel[]>
}

const BY_VALUE: Readonly<Record<string, Takes>> = { FILE: 'file', INPUT: 'file', FOLDER: 'folder' }

const HELP: OptionModel = { long: 'help', short: 'h', value: undefined, takes: undefined, text: 'Shows the help.' }

const optionModel = ([long, spec]: [string, OptionSpec]): OptionModel => ({
  long,
  short: spec.short,
  value: spec.type === 'string' ? (spec.value ?? 'VALUE') : undefined,
  takes: spec.takes ?? BY_VALUE[spec.value ?? ''],
  text: spec.text,
})

function commandModel({ name, summary, options, operands }: Command): CommandModel {
  const config = Object.values(options).find(({ operand }) => operand)
  return {
    name,
    summary,
    options: [...Object.entries(options).map(optionModel), HELP],
    takes: operands ? (operands.takes ?? BY_VALUE[operands.name]) : config && 'file',
    operand: operands?.name ?? config?.value,
    many: (operands?.max ?? 0) > 1,
  }
}

export function commandLineModel(commands: readonly Command[]): CommandLineModel {
  const first = new Map<string, WordModel>()
  const second = new Map<string, WordModel[]>()
  for (const { name, summary } of commands) {
    const [word = '', next] = name.split(' ')
    if (next === undefined) first.set(word, { word, summary })
    else {
      second.set(word, [...(second.get(word) ?? []), { word: next, summary }])
      if (!first.has(word)) first.set(word, { word, summary: '' })
    }
  }
  for (const [word, next] of second) {
    if (first.get(word)?.summary === '') first.set(word, { word, summary: next.map(({ word }) => word).join(', ') })
  }
  return { commands: commands.map(commandModel), first: [...first.values()], second }
}

/** The first sentence without its full stop: descriptions in a list of candidates should be short. */
export function brief(text: string): string {
  const end = text.search(/[.;](\s|$)/)
  return end === -1 ? text : text.slice(0, end)
}
