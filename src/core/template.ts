import { z } from 'zod'
import { BoundedMap } from '../lib/bounded-map.js'
import { GrowingBytes } from '../lib/formats/growing-bytes.js'
import type { EventBatch } from './event/batch.js'
import { type FieldPath, PathError, readFieldPath } from './event/field-path.js'
import { type FieldReader, MISSING, NULL_VALUE, NUMBER, STRING_VALUE } from './event/field-reader.js'
import { once } from './options/options.js'

/**
 * Texts with field values: `${.host}-${.app}`. A missing field gives the empty string. A value that is not a string is
 * formatted as JSON. `${.app:-none}` has a fallback for a field that is missing, null or an empty string. `$${` stands
 * for `${`.
 */

export interface Template {
  readonly text: string
  /** The parts in order. An empty list is an empty text. */
  readonly parts: readonly TemplatePart[]
}

export type TemplatePart = string | TemplateField

export interface TemplateField {
  readonly path: FieldPath
  /** The text for a field without a value; empty by default. */
  readonly fallback: string
  /** Whether the fallback also replaces null and the empty string. */
  readonly hasFallback: boolean
}

/** A syntax error in a template; `column` is 1-based. */
export class TemplateError extends Error {
  readonly code = 'SLUICE_TEMPLATE'
  readonly column: number
  constructor(message: string, column: number) {
    super(message)
    this.column = column
  }
}

/** The title of the schema, which identifies templates among the options of a component. */
export const TEMPLATE = 'template'

const LONGEST_TEXT = 16 * 1024
const MOST_FIELDS = 64
const GENERAL = 'must be a text in which ${.app} or ${.app:-none} stands for the value of a field'

/** Option schema: parses text such as `${.host}-${.app}` to a Template. */
export const template = once(() => {
  return z
    .string()
    .meta({ title: TEMPLATE })
    .transform((text, context): Template => {
      try {
        return parseTemplate(text)
      } catch (error) {
        if (!(error instanceof TemplateError)) throw error
        const message = `${error.message} (column ${error.column} of the text)`
        // Without `general`, an error could show the text, and the text may come from the environment.
        context.addIssue({ code: 'custom', message, params: { general: GENERAL } })
        return z.NEVER
      }
    })
})

/** Whether the text is never empty: it has literal text, or a field with a non-empty fallback. */
export function isNeverEmpty({ parts }: Template): boolean {
  return parts.some(part => typeof part === 'string' || (part.hasFallback && part.fallback !== ''))
}

export function parseTemplate(text: string): Template {
  if (text.length > LONGEST_TEXT) throw new TemplateError(`is longer than ${LONGEST_TEXT} characters`, 1)
  const parts: TemplatePart[] = []
  let fields = 0
  let literal = ''
  let from = 0
  for (let at = text.indexOf('${'); at !== -1; at = text.indexOf('${', from)) {
    if (at > from && text[at - 1] === '$') {
      literal += `${text.slice(from, at - 1)}\${`
      from = at + 2
      continue
    }
    if (++fields > MOST_FIELDS) throw new TemplateError(`has more than ${MOST_FIELDS} fields`, at + 1)
    const { field, end } = readField(text, at)
    literal += text.slice(from, at)
    if (literal !== '') parts.push(literal)
    literal = ''
    parts.push(field)
    from = end
  }
  literal += text.slice(from)
  if (literal !== '') parts.push(literal)
  return { text, parts }
}

/** Parses the field whose `${` is at `at`. */
function readField(text: string, at: number): { field: TemplateField; end: number } {
  const { path, end } = pathAt(text, at + 2)
  if (text[end] === '}') return { field: { path, fallback: '', hasFallback: false }, end: end + 1 }
  const close = text.startsWith(':-', end) ? text.indexOf('}', end) : -1
  if (close === -1) {
    const example = `\${${path.text}} or \${${path.text}:-none}`
    throw new TemplateError(`expected "}" or ":-" after the field; write ${example}`, end + 1)
  }
  return { field: { path, fallback: text.slice(end + 2, close), hasFallback: true }, end: close + 1 }
}

function pathAt(text: string, at: number): { path: FieldPath; end: number } {
  if (text[at] !== '.') {
    const message = '"${" begins a field, as in ${.app} or ${.app:-none}; write $${ for "${" itself'
    throw new TemplateError(message, at - 1)
  }
  try {
    return readFieldPath(text, at)
  } catch (error) {
    if (!(error instanceof PathError)) throw error
    throw new TemplateError(error.message, error.column)
  }
}

export const isConstant = ({ parts }: Template): boolean => parts.every(part => typeof part === 'string')

export function templatePaths({ parts }: Template): FieldPath[] {
  return parts.flatMap(part => (typeof part === 'string' ? [] : [part.path]))
}

export interface CompiledTemplate {
  /** Appends the UTF-8 text for event `i` of a batch. Stops after the part that makes the text exceed `most` bytes. */
  append(batch: EventBatch, i: number, sink: GrowingBytes, most?: number): void
}

/** Compiles a template. `field` creates the readers, one per path. */
export function compileTemplate({ parts }: Template, field: (path: FieldPath) => FieldReader): CompiledTemplate {
  const shared = sharedReaders(field)
  const pieces = parts.map(part => {
    if (typeof part === 'string') return { bytes: Buffer.from(part), reader: undefined, hasFallback: false }
    return { bytes: Buffer.from(part.fallback), reader: shared(part.path), hasFallback: part.hasFallback }
  })
  return {
    append(batch, i, sink, most = Number.POSITIVE_INFINITY) {
      const end = sink.length + most
      for (let k = 0; k < pieces.length && sink.length <= end; k++) {
        const { bytes, reader, hasFallback } = pieces[k]!
        if (reader === undefined) sink.add(bytes, 0, bytes.length)
        else {
          reader.load(batch, i)
          if (reader.kind === MISSING || (hasFallback && isBlank(reader))) sink.add(bytes, 0, bytes.length)
          else appendValue(reader, sink)
        }
      }
    },
  }
}

function isBlank(reader: FieldReader): boolean {
  if (reader.kind !== STRING_VALUE) return reader.kind === NULL_VALUE
  return reader.plain ? reader.start === reader.end : reader.text() === ''
}

/** Appends the text of a value that is not missing. */
export function appendValue(reader: FieldReader, sink: GrowingBytes): void {
  if (reader.plain) sink.add(reader.bytes, reader.start, reader.end)
  else if (reader.kind === NULL_VALUE) sink.addText('null')
  else sink.addText(reader.kind === NUMBER ? reader.json() : reader.text())
}

/** Makes `field` return the same reader for the same path. */
export function sharedReaders(field: (path: FieldPath) => FieldReader): (path: FieldPath) => FieldReader {
  const readers = new Map<string, FieldReader>()
  return path => {
    const reader = readers.get(path.text) ?? field(path)
    readers.set(path.text, reader)
    return reader
  }
}

/** Separates values. UTF-8 text never contains this byte. */
const SEPARATOR = Buffer.from([0xff])

const [MOST_KNOWN, LONGEST_KEY] = [1024, 256]

/** Members of a JSON object whose values are template texts. Empty values are left out. */
export class TemplateMembers {
  /** The members that all events have. */
  readonly constant: string
  readonly #variable: readonly { readonly name: string; readonly compiled: CompiledTemplate }[]
  readonly #text = new GrowingBytes()
  /** Members by key. Many events have the same. */
  readonly #known = new BoundedMap<string, string>(MOST_KNOWN)

  constructor(templates: Readonly<Record<string, Template>>, field: (path: FieldPath) => FieldReader) {
    const all = Object.entries(templates)
    const constant = all.filter(([, template]) => isConstant(template))
    this.constant = constant.reduce((json, [name, { parts }]) => json + member(json, name, parts.join('')), '')
    this.#variable = all
      .filter(([, template]) => !isConstant(template))
      .map(([name, template]) => ({ name, compiled: compileTemplate(template, field) }))
  }

  /** Whether all events have the same members. */
  get isConstant(): boolean {
    return this.#variable.length === 0
  }

  /** Returns the members for event `i`, such as `"app":"cart","level":"info"`. */
  of(batch: EventBatch, i: number): string {
    if (this.isConstant) return this.constant
    const key = this.key(batch, i)
    const known = this.#known.get(key)
    if (known !== undefined) return known
    let json = this.constant
    for (const { name, compiled } of this.#variable) {
      this.#text.clear()
      compiled.append(batch, i, this.#text)
      json += member(json, name, this.#text.bytes.toString('utf8', 0, this.#text.length))
    }
    if (key.length <= LONGEST_KEY) this.#known.set(key, json)
    return json
  }

  /** Returns a key for event `i`. Events have equal keys only if their texts are equal. */
  key(batch: EventBatch, i: number): string {
    this.#text.clear()
    for (const { compiled } of this.#variable) {
      compiled.append(batch, i, this.#text)
      this.#text.add(SEPARATOR, 0, 1)
    }
    return this.#text.bytes.toString('latin1', 0, this.#text.length)
  }
}

/** Returns a member as JSON, after a comma unless it is the first. If `text` is empty, returns an empty text. */
function member(before: string, name: string, text: string): string {
  return text === '' ? '' : `${before === '' ? '' : ','}"${name}":${JSON.stringify(text)}`
}
