import { z } from 'zod'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { slotOf, WantedNames } from '../../lib/formats/json-scan.js'
import { addEscaped, type ByteSink } from '../../lib/formats/json-string.js'
import { behindMark, Codec, defineCodec, putSlot } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import type { Fields } from '../event/event.js'
import type { EventFields } from '../event/event-fields.js'
import { DECODED, INVALID, MODIFIED } from '../event/flags.js'
import { OriginTail, originBit } from '../event/origin-tail.js'
import { reaches } from '../options/reach.js'
import { type EventMembers, MembersEncoder } from './event-members.js'

const QUOTE = 0x22
const LF = 0x0a
const CR = 0x0d
/** Unnamed values of a line that `parse` finds at most: each becomes a field with a name of its own. */
const MOST_UNNAMED = 65_536
/** Unnamed columns whose names are kept. */
const MOST_NAMES = 1000
const UNNAMED = 'column_'
const QUOTES = Buffer.from('"')
const EMPTY = Buffer.from('""')

const options = z.strictObject({
  delimiter: reaches(
    'nothing',
    z.string().regex(/^(?!["\w])[\t\x20-\x7e]$/, {
      error: 'must be one ASCII character other than a letter, a digit, "_" or a double quote',
    }),
  )
    .default(',')
    .describe(
      'The character between two values: an ASCII character other than a letter, a digit, `_` or a double quote.',
    ),
  columns: z
    .array(reaches('nothing', z.string().min(1)))
    .min(1)
    .refine(names => new Set(names).size === names.length, { error: 'must not contain a name twice' })
    .optional()
    .describe(
      'The names of the values of a line, in order. A line with more or fewer values is kept as text and counted. Default: column_1, column_2 and so on, as many as a line has.',
    ),
})
type Options = z.output<typeof options>

/** The last value found: its text without quotes, and whether it contains doubled quotes. */
let valueStart = 0
let valueEnd = 0
let doubled = false

/** Finds the value that begins at `p`. Returns its end, at a delimiter or at `end`; -1 if it is malformed. */
function valueEndAt(b: Uint8Array, p: number, end: number, delimiter: number): number {
  doubled = false
  valueStart = p
  if (p === end || b[p] !== QUOTE) {
    while (p < end && b[p] !== delimiter) {
      if (b[p] === QUOTE || b[p] === LF || b[p] === CR) return -1
      p++
    }
    valueEnd = p
    return p
  }
  valueStart = ++p
  for (; p < end; p++) {
    if (b[p] !== QUOTE) continue
    if (p + 1 === end || b[p + 1] !== QUOTE) break
    doubled = true
    p++
  }
  if (p >= end) return -1
  valueEnd = p++
  return p === end || b[p] === delimiter ? p : -1
}

class Csv extends Codec {
  readonly #delimiter: number
  readonly #columns: readonly string[] | undefined
  override readonly encode?: (fields: Fields) => string
  readonly #encoder: MembersEncoder
  /** The names of the columns, and of an event the member of each; -1: there is none. */
  readonly #known = new WantedNames()
  readonly #members: Int32Array
  /** What comes before each value in JSON; undefined if the order of the fields is another. */
  readonly #heads: readonly Buffer[] | undefined
  /** The bits of the columns that hide a field of the origin. */
  readonly #own: number
  readonly #tail = new OriginTail()
  /** Cached slots of the columns, and the names they were computed for. */
  #wanted: WantedNames | undefined
  #names = -1
  #slots: number[] = []
  readonly #fieldNames: FieldName[]

  constructor({ columns, delimiter }: Options) {
    super(csv, { ...(delimiter === ',' ? {} : { delimiter }), ...(columns && { columns }) })
    this.#delimiter = delimiter.charCodeAt(0)
    this.#columns = columns
    this.#fieldNames = columns?.map(name => new FieldName(name)) ?? []
    // An object has members with a number as their name before all others.
    const isInOrder = columns && !columns.some(name => /^\d/.test(name))
    this.#heads = isInOrder
      ? columns.map((name, n) => Buffer.from(`${n === 0 ? '{' : '",'}${JSON.stringify(name)}:"`))
      : undefined
    this.#own = columns?.reduce((bits, name) => bits | originBit(name), 0) ?? 0
    for (const name of columns ?? []) this.#known.slot(name)
    this.#members = new Int32Array(this.#known.names.length)
    this.#encoder = new MembersEncoder((members, out) => this.#writeLine(members, out))
    if (columns) this.encode = fields => this.#encoder.line(fields)
  }

  override get eventFields(): EventFields {
    if (this.#columns) return { names: this.#columns }
    return { names: [], others: { test: name => columnOf(name) >= 0, text: `.${UNNAMED}1, .${UNNAMED}2 and so on` } }
  }

  scan(b: Buffer, start: number, end: number, wanted: WantedNames, out: Int32Array, at: number): boolean {
    const slots = this.#wanted === wanted && this.#names === wanted.names.length ? this.#slots : this.#find(wanted)
    const columns = this.#columns?.length ?? Number.POSITIVE_INFINITY
    for (let column = 0, p = behindMark(b, start, end); ; column++, p++) {
      p = valueEndAt(b, p, end, this.#delimiter)
      if (p < 0 || column === columns) return false
      const slot = slots[column]
      if (slot !== undefined && slot >= 0) putSlot(out, at, slot, valueStart, valueEnd, doubled)
      if (p === end) return column + 1 === columns || this.#columns === undefined
    }
  }

  override read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const columns = this.#columns?.length ?? MOST_UNNAMED
    for (let column = 0, p = behindMark(b, start, end); ; column++, p++) {
      p = valueEndAt(b, p, end, this.#delimiter)
      if (p < 0 || column === columns) return false
      const name = this.#fieldName(column)
      if (doubled) to.value(name, this.value(b, valueStart, valueEnd))
      else to.text(name, b, valueStart, valueEnd)
      if (p === end) return column + 1 === columns || this.#columns === undefined
    }
  }

  #fieldName(column: number): FieldName {
    const known = this.#fieldNames[column]
    if (known) return known
    const name = new FieldName(`${UNNAMED}${column + 1}`)
    if (column < MOST_NAMES) this.#fieldNames.push(name)
    return name
  }

  override problem(b: Buffer, start: number, end: number): string {
    let values = 0
    for (let p = behindMark(b, start, end); ; p++) {
      const from = p
      p = valueEndAt(b, p, end, this.#delimiter)
      if (p < 0) return `the value at column ${from - start + 1} has a double quote in the wrong place, or a line end`
      values++
      if (p === end) return `expected ${this.#columns?.length ?? `at most ${MOST_UNNAMED}`} values, found ${values}`
    }
  }

  #find(wanted: WantedNames): readonly number[] {
    this.#slots = this.#columns?.map(name => wanted.names.indexOf(name)) ?? []
    if (!this.#columns) {
      wanted.names.forEach((name, slot) => {
        const column = columnOf(name)
        if (column >= 0) this.#slots[column] = slot
      })
    }
    this.#wanted = wanted
    this.#names = wanted.names.length
    return this.#slots
  }

  override value(b: Buffer, start: number, end: number): string {
    return b.toString('utf8', start, end).replaceAll('""', '"')
  }

  override writeEvent(batch: EventBatch, i: number, to: ByteSink): void {
    const flags = batch.look(i)
    const heads = this.#heads
    if (!heads || (flags & (DECODED | INVALID | MODIFIED)) !== DECODED) {
      super.writeEvent(batch, i, to)
      return
    }
    const { chunk, ends } = batch
    const end = ends[i]!
    let p = behindMark(chunk, batch.starts[i]!, end)
    for (const head of heads) {
      to.add(head, 0, head.length)
      p = valueEndAt(chunk, p, end, this.#delimiter) + 1
      this.#addValue(chunk, to)
    }
    const tail = this.#tail.of(batch, flags, this.#own)
    to.add(QUOTES, 0, 1)
    to.add(tail, 0, tail.length)
  }

  /** Writes the last value found, with doubled quotes as one. */
  #addValue(b: Buffer, to: ByteSink): void {
    if (!doubled) {
      addEscaped(to, b, valueStart, valueEnd)
      return
    }
    const text = Buffer.from(this.value(b, valueStart, valueEnd))
    addEscaped(to, text, 0, text.length)
  }

  override write(batch: EventBatch, to: ByteSink): void {
    this.#encoder.write(batch, to)
  }

  #writeLine(event: EventMembers, out: GrowingBytes): void {
    const members = this.#members.fill(-1)
    for (let n = 0; n < event.count; n++) {
      const { bytes, start, end } = event.name(n)
      const column = slotOf(bytes, start, end, this.#known)
      if (column >= 0) members[column] = n
    }
    const from = out.length
    for (let column = 0; column < members.length; column++) {
      if (column > 0) out.addByte(this.#delimiter)
      const n = members[column]!
      if (n >= 0 && !event.isNull(n)) this.#addText(event.text(n), out)
    }
    // A line with a single empty value would be an empty line, which readers skip.
    if (out.length === from) out.add(EMPTY, 0, EMPTY.length)
  }

  /** Writes a value, in quotes if it needs them. */
  #addText({ bytes, start, end }: EventMembers, out: GrowingBytes): void {
    let p = start
    while (p < end && bytes[p] !== this.#delimiter && bytes[p] !== QUOTE && bytes[p] !== LF && bytes[p] !== CR) p++
    if (p === end) {
      out.add(bytes, start, end)
      return
    }
    out.addByte(QUOTE)
    for (let from = start; from < end; from = p) {
      for (p = from; p < end && bytes[p] !== QUOTE; ) p++
      if (p < end) p++
      out.add(bytes, from, p)
      if (bytes[p - 1] === QUOTE) out.addByte(QUOTE)
    }
    out.addByte(QUOTE)
  }

  fields(b: Buffer, start: number, end: number): Fields {
    const values: [string, string][] = []
    for (let p = behindMark(b, start, end); ; p++) {
      p = valueEndAt(b, p, end, this.#delimiter)
      const text = b.toString('utf8', valueStart, valueEnd)
      const name = this.#columns?.[values.length] ?? `${UNNAMED}${values.length + 1}`
      values.push([name, doubled ? text.replaceAll('""', '"') : text])
      if (p === end) return Object.fromEntries(values)
    }
  }
}

/** The index of an unnamed column with this name; -1 if there is none. */
function columnOf(name: string): number {
  const [, number] = /^column_([1-9]\d{0,5})$/.exec(name) ?? []
  return number === undefined ? -1 : Number(number) - 1
}

export const csv = defineCodec({
  name: 'csv',
  summary: 'Each line has values separated by a delimiter and quoted as in RFC 4180.',
  notes:
    'A value in double quotes may contain the delimiter, and a double quote written as `""`. All values are text; spaces around a ' +
    'value are part of it. A line is one record: only a source with `multiline` reads quoted values with line ends in them. Names are not ' +
    'read from a header line, because a reader that continues in the middle of a file, in a rotated file or after a restart has not seen it: ' +
    'give them as `columns`. A header line is then an event like any other; a filter can discard it.\n\n' +
    'As an encoding: `columns` is required. The values of these fields are written in this order. A missing field becomes an ' +
    'empty value; objects, lists, numbers and booleans are written as JSON.',
  options,
  form: 'fields',
  expects: 'CSV',
  undecodedHelp: 'Lines that are not CSV with the configured columns. They are kept as text.',
  joinsLines: true,
  contentType: 'text/csv; charset=utf-8',
  cannotEncode: 'csv cannot be written without columns; add them, as in {codec: csv, columns: [a, b]}',
  examples: [
    {
      title: 'Named columns and another delimiter',
      yaml: "delimiter: ';'\ncolumns: [time, user, note]\n",
      line: '2026-01-31T12:00:00Z;ada;"says ""hi""; leaves"',
      event: { time: '2026-01-31T12:00:00Z', user: 'ada', note: 'says "hi"; leaves' },
    },
    {
      title: 'Without names',
      yaml: '',
      line: 'a,"b,c",',
      event: { column_1: 'a', column_2: 'b,c', column_3: '' },
    },
  ],
  create: parsed => new Csv(parsed),
})
