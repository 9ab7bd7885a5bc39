import { z } from 'zod'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import { integerOf } from '../../lib/formats/json-token.js'
import { Pattern, PatternError, type PatternMatch } from '../../lib/pattern.js'
import { behindMark, type CodecDefinition } from '../codec.js'
import { reaches } from '../options/reach.js'
import { FieldsCodec } from './fields-codec.js'

/** The option for the pattern of a codec. The codec compiles the pattern, and throws if the pattern is invalid. */
export const patternOption = reaches('nothing', z.string().min(1)).describe(
  'For regex, a regular expression with named groups; for grok, a pattern with %{NAME:field}.',
)

export interface PatternField {
  readonly group: number
  readonly name: string
  readonly type?: 'int' | 'float'
}

interface NamedGroup extends PatternField {
  readonly field: FieldName
}

/**
 * Compiles a user's pattern. As in other languages, an unknown escape stands for its character. JavaScript accepts
 * unknown escapes only without the flag `u`. So if `source` is invalid with the flag `u`, compiles `lenient` without
 * this flag. If both are invalid, throws a PatternError.
 */
export function compiledPattern(source: string, flags = '', lenient = source): Pattern {
  try {
    return new Pattern(source, `${flags}u`)
  } catch (error) {
    try {
      return new Pattern(lenient, flags)
    } catch {
      throw error
    }
  }
}

/** A codec whose fields are the groups of a pattern. If groups share a field, the first group that matched sets it. */
export abstract class PatternCodec extends FieldsCodec {
  readonly #pattern: Pattern
  /** One list for each field: the groups that can give its value. */
  readonly #groups: readonly (readonly NamedGroup[])[]
  readonly #keepsEmpty: boolean
  #problem: string | undefined

  constructor(
    definition: CodecDefinition,
    options: Readonly<Record<string, unknown>>,
    pattern: Pattern,
    fields: readonly PatternField[],
    keepsEmpty: boolean,
  ) {
    super(definition, { names: [...new Set(fields.map(({ name }) => name))] }, options)
    this.#pattern = pattern
    this.#keepsEmpty = keepsEmpty
    const groups = new Map<string, NamedGroup[]>()
    for (const field of fields) {
      const known = groups.get(field.name) ?? []
      known.push({ ...field, field: known[0]?.field ?? new FieldName(field.name) })
      groups.set(field.name, known)
    }
    this.#groups = [...groups.values()]
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const from = behindMark(b, start, end)
    const text = b.toString('utf8', from, end)
    // If the line is ASCII, positions in the text equal positions in the line.
    const isPlain = text.length === end - from
    const match = this.#match(text)
    if (!match) return false
    const places = match.groups
    for (const groups of this.#groups) {
      for (const { group, field, type } of groups) {
        const place = places[group]
        if (!place || (place[0] === place[1] && !this.#keepsEmpty)) continue
        if (type) addConverted(to, field, text.slice(...place), type)
        else if (isPlain) to.text(field, b, from + place[0], from + place[1])
        else to.value(field, text.slice(...place))
        break
      }
    }
    return true
  }

  #match(text: string): PatternMatch | undefined {
    this.#problem = undefined
    try {
      return this.#pattern.exec(text)
    } catch (error) {
      if (!(error instanceof PatternError)) throw error
      this.#problem = error.message
      return undefined
    }
  }

  override problem(): string | undefined {
    return this.#problem
  }
}

/** Writes a text as a number. Writes the text unchanged if it is not a number. */
function addConverted(to: FieldSink, name: FieldName, text: string, type: 'int' | 'float'): void {
  const number = Number(text)
  const integer = type === 'int' ? integerOf(text) : undefined
  if (typeof integer === 'bigint') {
    const digits = Buffer.from(String(integer))
    to.json(name, digits, 0, digits.length)
  } else if (text.trim() === '' || !Number.isFinite(number)) to.value(name, text)
  else to.value(name, type === 'int' ? Math.trunc(number) : number)
}
