import { z } from 'zod'
import { CR, LF, QUOTE } from '../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { slotOf, WantedNames } from '../../lib/formats/json-scan.js'
import type { ByteSink } from '../../lib/formats/json-string.js'
import { behindMark, defineCodec } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import type { Fields } from '../event/event-fields.js'
import { reaches } from '../options/reach.js'
import { type EventMembers, MembersEncoder } from './event-members.js'
import { FieldsCodec } from './fields-codec.js'
import { fail, whatFailed } from './web-log/web-log.js'

/** Maximum number of unnamed values that `parse` reads from a line. Each becomes a field with its own name. */
const MOST_UNNAMED = 65_536
/** Maximum number of cached names of unnamed columns. */
const MOST_NAMES = 1000
const UNNAMED = 'column_'
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

/** The value that was found last: its text without quotes, and whether this text contains doubled quotes. */
let valueStart = 0
let valueEnd = 0
let doubled = false

/** Finds the value that begins at `p`. Returns where the value ends (a delimiter or `end`), or -1 if malformed. */
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

class Csv extends FieldsCodec {
  readonly #delimiter: number
  readonly #most: number
  readonly #isFixed: boolean
  readonly #names: FieldName[]
  override readonly encode?: (fields: Fields) => string
  readonly #encoder: MembersEncoder
  /** `#known`: the column names. `#members`: for each column, the index of the event's member, or -1 if missing. */
  readonly #known = new WantedNames()
  readonly #members: Int32Array

  constructor({ columns, delimiter }: Options) {
    const others = { test: (name: string) => columnOf(name) >= 0, text: `.${UNNAMED}1, .${UNNAMED}2 and so on` }
    const given = { ...(delimiter === ',' ? {} : { delimiter }), ...(columns && { columns }) }
    super(csv, columns ? { names: columns } : { names: [], others }, given)
    this.#delimiter = delimiter.charCodeAt(0)
    this.#isFixed = columns !== undefined
    this.#most = columns?.length ?? MOST_UNNAMED
    this.#names = columns?.map(name => new FieldName(name)) ?? []
    for (const name of columns ?? []) this.#known.slot(name)
    this.#members = new Int32Array(this.#known.names.length)
    this.#encoder = new MembersEncoder((members, out) => this.#writeLine(members, out))
    if (columns) this.encode = fields => this.#encoder.line(fields)
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    for (let column = 0, p = behindMark(b, start, end); ; column++, p++) {
      const from = p
      p = valueEndAt(b, p, end, this.#delimiter)
      if (p < 0) return fail(from, 'a value without double quotes, or in double quotes')
      if (column === this.#most) return fail(from, `the end of the line, after ${this.#most} values`)
      if (doubled) to.made(this.#name(column), this, b, valueStart, valueEnd)
      else to.text(this.#name(column), b, valueStart, valueEnd)
      if (p < end) continue
      return !this.#isFixed || column + 1 === this.#most || fail(end, `${this.#most} values instead of ${column + 1}`)
    }
  }

  #name(column: number): FieldName {
    const known = this.#names[column]
    if (known) return known
    const name = new FieldName(`${UNNAMED}${column + 1}`)
    if (column < MOST_NAMES) this.#names.push(name)
    return name
  }

  override problem(_b: Buffer, start: number): string {
    return whatFailed(start)
  }

  override value(b: Buffer, start: number, end: number): string {
    return b.toString('utf8', start, end).replaceAll('""', '"')
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
    // Without quotes, a single empty value would make an empty line, which readers skip.
    if (out.length === from) out.add(EMPTY, 0, EMPTY.length)
  }

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
}

/** Returns the 0-based index of the column with the name `column_N`, or -1 if the name has another form. */
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
    'read from a header line: a reader that continues in the middle of a file, in a rotated file or after a restart has not seen this line. ' +
    'Set the names with `columns`. A header line is then an event like any other; a filter can discard it.\n\n' +
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
