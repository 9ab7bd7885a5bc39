import { z } from 'zod'
import { defineCodec } from '../../../core/codec.js'
import { FieldsCodec } from '../../../core/codecs/fields-codec.js'
import { refuse } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'
import { timeZone } from '../../../core/options/time-zone.js'
import { isoText, TIME_FORMATS } from '../../../core/time-formats.js'
import { FieldName, type FieldSink } from '../../../lib/formats/field-sink.js'
import { compileFormat, LONGEST_TIME, type TimeParser } from '../../../lib/formats/strptime.js'
import { TimeZone } from '../../../lib/formats/time-zone.js'

const MOST_FORMATS = 16
const NAMES = Object.keys(TIME_FORMATS).join(', ')

const format = () => reaches('nothing', z.string())

function checkFormat(text: string): string | undefined {
  if (Object.hasOwn(TIME_FORMATS, text)) return undefined
  if (!text.includes('%')) return `must be one of ${NAMES}, or a format such as %Y-%m-%d %H:%M:%S`
  try {
    compileFormat(text)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

const options = z.strictObject({
  format: z
    .union([format(), z.array(format()).min(1).max(MOST_FORMATS)])
    .superRefine((given, context) => {
      for (const text of [given].flat()) {
        const problem = checkFormat(text)
        if (problem !== undefined) refuse(context, problem)
      }
    })
    .default('auto')
    .describe(
      `Format of the times: one of ${NAMES}, a format with strptime directives, or a list of these. ` +
        'auto: any of the named formats; the number of digits determines the unit of an epoch time.',
    ),
  time_zone: timeZone
    .default('UTC')
    .describe('Time zone of times that do not name one, as in Europe/Berlin. Default: UTC.'),
})
type Options = z.output<typeof options>

const NAME = new FieldName('timestamp')

class Timestamp extends FieldsCodec {
  readonly #readers: readonly TimeParser[]
  readonly #zone: TimeZone
  /** Caches the last text and its time, because many events have the same second. */
  #text = ''
  #wall = Number.NaN
  #iso: string | undefined

  constructor(given: Options) {
    super(timestamp, { names: ['timestamp'] }, given)
    this.#readers = [given.format].flat().map(text => TIME_FORMATS[text] ?? compileFormat(text))
    this.#zone = new TimeZone(given.time_zone)
  }

  read(b: Buffer, start: number, end: number, to: FieldSink, receivedAt: number): boolean {
    if (end - start > LONGEST_TIME) return false
    const text = b.toString('latin1', start, end)
    if (text !== this.#text || receivedAt !== this.#wall) {
      this.#iso = this.#find(text, receivedAt)
      this.#text = text
      this.#wall = receivedAt
    }
    if (this.#iso === undefined) return false
    to.value(NAME, this.#iso)
    return true
  }

  #find(text: string, wall: number): string | undefined {
    for (const read of this.#readers) {
      const time = read(text, this.#zone, wall)
      if (time) return isoText(time)
    }
    return undefined
  }
}

/** Reads the text of a field as a time. It is not a codec for lines. */
export const timestamp = defineCodec({
  name: 'timestamp',
  summary: 'The text is a time.',
  options,
  form: 'fields',
  readsValue: true,
  expects: 'a time in the format',
  undecodedHelp: 'Lines that are not times.',
  joinsLines: false,
  examples: [
    {
      title: 'A time of an access log',
      yaml: "format: '%d/%b/%Y:%H:%M:%S %z'\n",
      line: '31/Jan/2026:12:00:00 +0100',
      event: { timestamp: '2026-01-31T11:00:00.000Z' },
    },
  ],
  create: parsed => new Timestamp(parsed),
})
