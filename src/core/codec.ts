import { z } from 'zod'
import { SLOT, type WantedNames } from '../lib/formats/json-scan.js'
import { jsonText } from '../lib/formats/json-text.js'
import type { EventBatch } from './event/batch.js'
import type { Fields } from './event/event.js'
import type { EventFields } from './event/event-fields.js'

/**
 * How a decoded line becomes an event.
 * - `object`: the line is the event itself, a JSON object. Nothing is added to it.
 * - `message`: the line is the event's message. Every line is decoded.
 * - `fields`: the line has fields. Those of its origin (file, peer, host, timestamp) are added where the line has none
 *   of the same name.
 */
export type Form = 'object' | 'message' | 'fields'

/** Where encoded events go: bytes are written in the order in which they are added. */
export interface ByteSink {
  add(source: Buffer, start: number, end: number): void
}

/** One line and the event that it becomes. Run by the tests. */
export interface CodecExample {
  readonly title: string
  /** The options as YAML, without `codec`. Empty: none. */
  readonly yaml: string
  readonly line: string
  /** The fields that the line itself gives to the event. */
  readonly event: Readonly<Record<string, unknown>>
}

/** The declaration of a codec: schema, text, examples and code in one place. */
export interface CodecDefinition {
  readonly name: string
  /** One sentence. */
  readonly summary: string
  /** More, for the reference. */
  readonly notes?: string
  /**
   * The options besides `codec`. What they parse to is plain JSON that parses to itself: it is written into records of
   * disk buffers and dead letters.
   */
  readonly options: z.ZodObject
  readonly examples: readonly [CodecExample, ...CodecExample[]]
  readonly form: Form
  /** What a line has to be, with its article: `a JSON object`. */
  readonly expects: string
  /** The help text of `sluice_not_<name>_lines_total`. */
  readonly undecodedHelp: string
  /** Whether several lines may be joined to one event by `multiline`. */
  readonly joinsLines: boolean
  /** Whether the first piece of a line that is too long is decoded. The other pieces never are. */
  readonly decodesFirstPiece?: boolean
  /** Whether senders may put the length of a message before it (RFC 6587). */
  readonly mayBeCounted?: boolean
  /** Whether an event without a host has the address of its sender in that place. */
  readonly hostIsSender?: boolean
  /** The media type of encoded events. Left out: the codec only decodes. */
  readonly contentType?: string
  /** Why events cannot be encoded with these options, where they cannot; the codec has no `encode` then. */
  readonly cannotEncode?: string
  create(options: never): Codec
}

/** Declares a codec. The type of the options is forgotten: they are parsed by the schema before `create`. */
export function defineCodec<S extends z.ZodObject>(
  definition: Omit<CodecDefinition, 'options' | 'create'> & {
    readonly options: S
    create(options: z.output<S>): Codec
  },
): CodecDefinition {
  return definition as CodecDefinition
}

export const NO_OPTIONS = z.strictObject({})

/** A codec with its options. It keeps nothing of the lines that it has seen: one serves any number of sources. */
export abstract class Codec {
  readonly definition: CodecDefinition
  readonly name: string
  readonly form: Form
  readonly options: Readonly<Record<string, unknown>>

  constructor(definition: CodecDefinition, options: Readonly<Record<string, unknown>> = {}) {
    this.definition = definition
    this.name = definition.name
    this.form = definition.form
    this.options = options
  }

  /** The fields that a decoded line can have; undefined: any. */
  get eventFields(): EventFields | undefined {
    return { names: [] }
  }

  /**
   * Whether the line [start, end) of `b` can be decoded. Then `out` holds, from index `at` on, SLOT numbers for each
   * wanted name. What `out` held there must be 0 before. Allocates nothing. The bytes are valid UTF-8, or the slots are
   * not used.
   *
   * Of the form `object` the slots are those of `scanObject`. Of the form `fields` they are written by `putSlot`.
   */
  abstract scan(b: Buffer, start: number, end: number, wanted: WantedNames, out: Int32Array, at: number): boolean

  /** All fields of a line that `scan` accepts. `receivedAt` is the wall clock in milliseconds. */
  abstract fields(b: Buffer, start: number, end: number, receivedAt: number): Fields

  /** The value of a slot that was marked as one whose bytes are not its text. */
  value(_b: Buffer, _start: number, _end: number, _name: string, _receivedAt: number): unknown {
    return undefined
  }

  /** The line of an event, without a line end. Undefined: this codec only decodes. */
  encode?(fields: Fields): string

  /** Makes a message with line ends in it one line, in place. A control character stands at `end`. */
  flatten?(chunk: Buffer, start: number, end: number): void

  /** Writes each event of `batch`, whose lines this codec has read, as a JSON object on a line of its own. */
  writeJson(batch: EventBatch, to: ByteSink): void {
    for (let i = 0; i < batch.length; i++) writeJsonLine(batch, i, to)
  }

  /** Writes the events of `batch`, whatever codec has read them. */
  write(batch: EventBatch, to: ByteSink): void {
    for (let i = 0; i < batch.length; i++) writeText(`${this.encode!(batch.fields(i))}\n`, to)
  }

  /** As it stands in a configuration: also what makes two codecs the same. */
  toJSON(): { readonly codec: string } {
    return { codec: this.name, ...this.options }
  }

  isSame(other: Codec): boolean {
    return this === other || JSON.stringify(this) === JSON.stringify(other)
  }

  /** As text: `json`, or `csv` with its options as JSON. */
  toString(): string {
    return Object.keys(this.options).length === 0 ? this.name : `${this.name} ${JSON.stringify(this.options)}`
  }
}

/**
 * Sets `slot` of the scan whose output begins at `at`: the value is the text [start, end) or, with `special`, what
 * `Codec.value` makes of it.
 */
export function putSlot(out: Int32Array, at: number, slot: number, start: number, end: number, special: boolean): void {
  out[at + slot * SLOT] = start + 1
  out[at + slot * SLOT + 1] = (end << 1) | (special ? 1 : 0)
}

/** The first byte of a byte order mark in UTF-8. */
export const MARK = 0xef

/**
 * Where the text of a line begins that has a byte order mark in front of it: what editors put at the beginning of a file.
 * It can be at the beginning of any line, because files are joined and rotated.
 */
export function behindMark(b: Uint8Array, start: number, end: number): number {
  return b[start] === MARK && end - start >= 3 && b[start + 1] === 0xbb && b[start + 2] === 0xbf ? start + 3 : start
}

export function writeJsonLine(batch: EventBatch, i: number, to: ByteSink): void {
  writeText(`${jsonText(batch.fields(i))}\n`, to)
}

function writeText(text: string, to: ByteSink): void {
  const bytes = Buffer.from(text)
  to.add(bytes, 0, bytes.length)
}
