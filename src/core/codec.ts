import { z } from 'zod'
import { FieldName, type FieldSink } from '../lib/formats/field-sink.js'
import { SLOT, WantedNames } from '../lib/formats/json-scan.js'
import type { ByteSink } from '../lib/formats/json-string.js'
import { exactJson } from '../lib/formats/normal-json.js'
import type { Lines } from '../lib/kernel/line-memory.js'
import type { Framing } from '../lib/lines/framed-splitter.js'
import type { ReadPart } from '../lib/lines/part-splitter.js'
import type { LineFormat } from './codecs/field-lines.js'
import { errorText, OptionError } from './errors.js'
import type { ChangedTexts } from './event/changed-texts.js'
import type { EventFields, Fields } from './event/event-fields.js'
import type { FieldPath } from './event/field-path.js'
import type { Reach } from './options/reach.js'

/**
 * How a decoded line becomes an event.
 * - `object`: the line is the event itself, a JSON object. No field is added.
 * - `message`: the line is the message of the event. Every line can be decoded.
 * - `fields`: the line has fields. The fields of the line's origin (file, peer, host, timestamp) are added unless the
 *   line has a field of that name.
 */
export type Form = 'object' | 'message' | 'fields'

/** A line and the event that it becomes. The tests check each example. */
export interface CodecExample {
  readonly title: string
  /** The options as YAML, without `codec`. May be empty. */
  readonly yaml: string
  readonly line: string
  /** For a codec with framing: the bytes of the record, in hexadecimal. */
  readonly record?: string
  /** The fields that come from the line itself. */
  readonly event: Readonly<Record<string, unknown>>
}

/** The declaration of a codec: schema, text, examples and code in one place. */
export interface CodecDefinition {
  readonly name: string
  /** The plugin that defines the codec, with its version; undefined for built-in codecs. */
  readonly plugin?: string
  /** One sentence. */
  readonly summary: string
  /** Further text for the reference. */
  readonly notes?: string
  /**
   * The options besides `codec`. Disk buffers and dead-letter queues store the parsed options. So parsing must return
   * plain JSON, and parsing this JSON again must not change it.
   */
  readonly options: z.ZodObject
  readonly examples: readonly [CodecExample, ...CodecExample[]]
  readonly form: Form
  /** What a line must be, with an article: `a JSON object`. */
  readonly expects: string
  /** The help text of `sluice_not_<name>_lines_total`. */
  readonly undecodedHelp: string
  /** Whether `multiline` may join several lines into one event. */
  readonly joinsLines: boolean
  /**
   * In sources that read lines, finds the lines that are parts of one event. `read` then gets all lines of the event,
   * with the line ends between them. An over-long event arrives in pieces. A piece is decoded if it begins at the start
   * of a line.
   */
  readonly readPart?: ReadPart
  /** Whether the first piece of an over-long line is decoded. Other pieces are never decoded. */
  readonly decodesFirstPiece?: boolean
  /** Whether senders may prefix a message with its length (RFC 6587). */
  readonly mayBeCounted?: boolean
  /** Whether senders may end a message with a null byte instead of a line end. */
  readonly endsWithNull?: true
  /** Whether an event without a host gets the address of its sender as the host. */
  readonly hostIsSender?: boolean
  /** Whether a line holds a single value instead of fields. `parse` stores that value unchanged in its target. */
  readonly readsValue?: true
  /** The media type of encoded events. Missing if the codec only decodes. */
  readonly contentType?: string
  /** Further media types that it decodes. */
  readonly mediaTypes?: readonly string[]
  /** Why, with these options, the codec has no `encode` and cannot encode. */
  readonly cannotEncode?: string
  /** The codec of the same name that an `encoding` creates instead. It has options of its own, and only encodes. */
  readonly encoder?: CodecDefinition
  /** How values that `write` cannot write as chosen are counted and logged. For each one, `write` calls `onLeftOut`. */
  readonly leavesOut?: { readonly metric: string; readonly help: string; readonly code: string; readonly log: string }
  create(options: never): Codec
}

/** Declares a codec. The type of the options is erased, because the schema parses the options before `create`. */
export function defineCodec<S extends z.ZodObject>(
  definition: Omit<CodecDefinition, 'options' | 'create'> & {
    readonly options: S
    create(options: z.output<S>): Codec
  },
): CodecDefinition {
  return definition as CodecDefinition
}

export const NO_OPTIONS = z.strictObject({})

/** What a codec reads of a batch (core/event/batch.ts). `texts`: the texts of changed events. */
export interface EncodedEvents {
  readonly length: number
  readonly texts: ChangedTexts | undefined
  /** All fields of event `i`. `isExact`: integers that a double would change may be bigints. */
  fields(i: number, isExact?: boolean): Fields
}

/** A codec with its options. It has no state, so one instance serves any number of sources. */
export abstract class Codec {
  readonly definition: CodecDefinition
  readonly name: string
  readonly form: Form
  /** All options but `codec`. Buffers keep them with the events, and create the codec from them again. */
  readonly options: Readonly<Record<string, unknown>>
  /** How the WebAssembly kernel (lib/kernel) reads most lines. The result is the same as that of `read`. */
  readonly lineFormat?: LineFormat
  /** Divides bytes into records, for codecs whose records do not end with a line end. */
  readonly framing?: Framing | undefined
  /**
   * Called when `write` cannot write a value as chosen (see `leavesOut`). `field`: the name of the event field.
   */
  onLeftOut: ((field: string) => void) | undefined

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

  /** The only field that `write` reads; undefined: it reads all fields. */
  get writtenField(): FieldPath | undefined {
    return undefined
  }

  /** Whether a piece of an over-long line may be decoded. */
  decodesPiece(isFirst: boolean): boolean {
    return this.definition.readPart !== undefined || (isFirst && this.definition.decodesFirstPiece === true)
  }

  /**
   * Returns whether the line [start, end) of `b` can be decoded. If so, writes SLOT numbers per wanted name to `out`
   * from index `at` on. The caller sets these numbers to 0 before the call, and ignores them if the line is not valid
   * UTF-8. Allocates nothing.
   *
   * For the form `object`, the slots are the same as from `scanObject`. For `fields`, `putSlot` writes them.
   */
  abstract scan(b: Buffer, start: number, end: number, wanted: WantedNames, out: Int32Array, at: number): boolean

  /**
   * Scans all lines in one call if this is faster. Sets the flags SCANNED and DECODED of each line, and writes its
   * slots to `out`. All lines are valid UTF-8. Returns the number of lines that still lack SCANNED. The caller uses
   * `scan` for these lines. Returns undefined if it scanned no line.
   */
  scanLines?(lines: Lines, wanted: WantedNames, out: Int32Array): number | undefined

  /** Reads the files that the options name, if `reach` allows them. Throws if a file is missing or invalid. */
  load?(reach?: Reach): void

  /**
   * Returns all fields of a line that `scan` accepts. `receivedAt`: when the line arrived, as wall clock milliseconds.
   * `isExact`: integers that a double would change may be bigints.
   */
  abstract fields(b: Buffer, start: number, end: number, receivedAt: number, isExact?: boolean): Fields

  /**
   * Writes to `to` the fields of the line [start, end), which is valid UTF-8. On false, the line cannot be decoded:
   * ignore the written fields. This default builds an object, which is several times slower.
   */
  read(b: Buffer, start: number, end: number, to: FieldSink, receivedAt: number): boolean {
    if (!this.scan(b, start, end, NO_NAMES, NO_SLOTS, 0)) return false
    for (const [name, value] of Object.entries(this.fields(b, start, end, receivedAt))) {
      to.value(new FieldName(name), value)
    }
    return true
  }

  /** Returns why `read` has just rejected a line, such as `expected "[" at column 12`; undefined: unknown. */
  problem?(b: Buffer, start: number, end: number): string | undefined

  /** Returns the value of a `special` slot, whose bytes are not the text of the value. */
  value(_b: Buffer, _start: number, _end: number, _name: string, _receivedAt: number): unknown {
    return undefined
  }

  /** Returns the event as a line, without a line end. Missing if it only decodes. Built-in codecs get bigints. */
  encode?(fields: Fields): string

  encodeEvent(batch: EncodedEvents, i: number): string {
    return this.encode!(batch.fields(i, this.definition.plugin === undefined))
  }

  /** Replaces line ends within a message in place. The byte at `end` is a control character. */
  flatten?(chunk: Buffer, start: number, end: number): void

  /** Writes each event of `batch` as one line of JSON. This codec has decoded the lines of the batch. */
  writeJson(batch: EncodedEvents, to: ByteSink): void {
    const { length, texts } = batch
    for (let i = 0; i < length; ) {
      if (texts?.has(i)) {
        i = texts.addLines(i, length, to)
        continue
      }
      this.writeEvent(batch, i++, to)
      to.add(NEWLINE, 0, 1)
    }
  }

  /** Writes event `i` of `batch` as JSON without a line end. This codec has decoded the line of the event. */
  writeEvent(batch: EncodedEvents, i: number, to: ByteSink): void {
    const { texts } = batch
    if (texts?.has(i)) to.add(texts.bytes, texts.starts[i]!, texts.ends[i]!)
    else writeText(exactJson(batch.fields(i, true)), to)
  }

  /** Writes the events of `batch`, even if another codec decoded them. */
  write(batch: EncodedEvents, to: ByteSink): void {
    for (let i = 0; i < batch.length; i++) writeText(`${this.encodeEvent(batch, i)}\n`, to)
  }

  /** Returns the codec and its options in the form of a configuration. */
  toJSON(): { readonly codec: string } {
    return { codec: this.name, ...this.options }
  }

  isSame(other: Codec): boolean {
    if (this === other) return true
    return this.definition.plugin === other.definition.plugin && JSON.stringify(this) === JSON.stringify(other)
  }

  /** `json`, or `csv` followed by its options as JSON. */
  toString(): string {
    return Object.keys(this.options).length === 0 ? this.name : `${this.name} ${JSON.stringify(this.options)}`
  }
}

/**
 * Sets slot number `slot` of a line whose slots begin at `out[at]`. The value is the text [start, end). If `special`,
 * the value is the result of `Codec.value` instead.
 */
export function putSlot(out: Int32Array, at: number, slot: number, start: number, end: number, special: boolean): void {
  out[at + slot * SLOT] = start + 1
  out[at + slot * SLOT + 1] = (end << 1) | (special ? 1 : 0)
}

const NO_NAMES = new WantedNames()
const NO_SLOTS = new Int32Array(0)

export const NEWLINE = Buffer.from('\n')

/** The first byte of a UTF-8 byte order mark. */
export const BYTE_ORDER_MARK = 0xef

/**
 * Returns where the text of the line begins. If the line begins with a byte order mark, the text begins after the mark.
 * Editors write the mark at the start of a file. In joined files, any line can begin with the mark.
 */
export function behindMark(b: Uint8Array, start: number, end: number): number {
  return b[start] === BYTE_ORDER_MARK && end - start >= 3 && b[start + 1] === 0xbb && b[start + 2] === 0xbf
    ? start + 3
    : start
}

function writeText(text: string, to: ByteSink): void {
  const bytes = Buffer.from(text)
  to.add(bytes, 0, bytes.length)
}

export function loadCodecs(options: object, reach: Reach | undefined): void {
  for (const [option, value] of Object.entries(options))
    for (const codec of codecsIn([value])) loadCodec(codec, option, reach)
}

/** Calls `load` of the codec that `option` chooses. Throws an OptionError if `load` throws. */
export function loadCodec(codec: Codec, option: string, reach: Reach | undefined): void {
  try {
    codec.load?.(reach)
  } catch (error) {
    throw new OptionError(option, errorText(error), error)
  }
}

export function* codecsIn(options: object): Iterable<Codec> {
  for (const value of Object.values(options) as unknown[]) {
    if (value instanceof Codec) yield value
    else if (Array.isArray(value) || isMapping(value)) yield* codecsIn(value)
  }
}

export const isMapping = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
