import { BACKSLASH, CLOSE_OBJECT, COLON, COMMA, isAt, LF, QUOTE, SPACE } from '../../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../../lib/formats/field-sink.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { firstEscape, sawEscape, slotOf, stringEnd, WantedNames } from '../../../lib/formats/json-scan.js'
import { PART } from '../../../lib/lines/part-splitter.js'
import { behindMark, defineCodec, NO_OPTIONS } from '../../codec.js'
import type { LineFormat } from '../field-lines.js'
import { FieldsCodec } from '../fields-codec.js'
import { JSON_OBJECTS } from '../json.js'
import { indexOfByte } from '../web-log/web-log.js'

const N = 0x6e
const R = 0x72
const STREAM_KEY = Buffer.from('"stream"')
const STD = Buffer.from('"std')

const MESSAGE = new FieldName('message')
const TIMESTAMP = new FieldName('timestamp')
const STREAM_NAME = new FieldName('stream')
const ATTRS = new FieldName('attrs')
const PARTIAL = new FieldName('partial')
// The value of `partial` for an unfinished line. The first piece of an over-long line has the same value.
const FIRST = Buffer.from('first')

/** The letter after `std` in the stream's name, set by `streamMark`: `o` or `e`. */
let letter = 0

/** Returns where the key `"stream"` begins; -1: not found. Searches backwards from the end of the line. */
function streamMark(b: Buffer, start: number, end: number): number {
  for (let p = end - STREAM_KEY.length; p >= start; p--) {
    if (!isAt(b, p, end, STREAM_KEY)) continue
    const colon = afterBlanks(b, p + STREAM_KEY.length, end)
    const value = afterBlanks(b, colon + 1, end)
    if (b[colon] !== COLON || !isAt(b, value, end, STD)) continue
    letter = b[value + STD.length]!
    return p
  }
  return -1
}

function afterBlanks(b: Buffer, p: number, end: number): number {
  while (p < end && b[p]! <= SPACE) p++
  return p
}

/** Returns the start of the blanks that end at `p`. */
function beforeBlanks(b: Buffer, start: number, p: number): number {
  while (p > start && b[p - 1]! <= SPACE) p--
  return p
}

/** Whether the content [start, end) of a JSON string ends with an escape: a backslash and `letter`. */
function endsWithEscape(b: Buffer, start: number, end: number, letter: number): boolean {
  let p = end - 1
  if (p <= start || b[p] !== letter) return false
  while (p > start && b[p - 1] === BACKSLASH) p--
  return (end - 1 - p) % 2 === 1
}

function readPart(b: Buffer, start: number, end: number): number {
  const p = streamMark(b, start, end)
  if (p < 0) return 0
  const stream = letter === 0x6f ? 1 : 2
  const comma = beforeBlanks(b, start, p) - 1
  const quote = beforeBlanks(b, start, comma) - 1
  if (quote <= start || b[comma] !== COMMA || b[quote] !== QUOTE) return stream
  return endsWithEscape(b, start, quote, N) ? stream : stream | PART
}

class Line implements FieldSink {
  b: Buffer = Buffer.alloc(0)
  /** Start of each member's JSON; -1: missing. */
  readonly starts = new Int32Array(4)
  readonly ends = new Int32Array(4)
  /** Position of the first escape in the text; without escapes, the end of the text. */
  escapeAt = 0
  /** Whether the line has the usual form, in which only the text can contain escapes. */
  isUsual = false
  #hasOthers = false

  readonly text = unused
  readonly string = unused
  readonly made = unused
  readonly value = unused

  json(name: FieldName, b: Buffer, start: number, end: number): void {
    this.b = b
    const which = slotOf(name.bytes, name.start, name.end, NAMES)
    if (which < 0) this.#hasOthers = true
    else {
      this.starts[which] = start
      this.ends[which] = end
    }
  }

  /** Reads a line in the usual form `{"log":"…","stream":"stdout","time":"…"}`. A control character is at `end`. */
  readUsual(b: Buffer, start: number, end: number): boolean {
    this.isUsual = false
    this.starts.fill(-1)
    const log = this.#string(b, LOG, 0, start)
    this.escapeAt = sawEscape ? firstEscape : log
    const stream = log < 0 ? -1 : this.#string(b, STREAM, 1, log + 1)
    if (stream < 0 || sawEscape) return false
    const time = this.#string(b, TIME, 2, stream + 1)
    this.isUsual = time >= 0 && !sawEscape && b[time + 1] === CLOSE_OBJECT && time + 2 === end
    this.b = b
    return this.isUsual
  }

  /** Reads the string that follows `HEADS[head]`. Returns the position of its closing quote, or -1 if not found. */
  #string(b: Buffer, which: number, head: number, at: number): number {
    const bytes = HEADS[head]!
    for (let i = 0; i < bytes.length; i++) if (b[at + i] !== bytes[i]) return -1
    const start = at + bytes.length
    const end = stringEnd(b, start)
    this.starts[which] = start - 1
    this.ends[which] = end + 1
    return end
  }

  read(b: Buffer, start: number, end: number): boolean {
    if (end < b.length && b[end]! < SPACE && this.readUsual(b, start, end)) return true
    this.isUsual = false
    this.starts.fill(-1)
    this.#hasOthers = false
    const isRead = JSON_OBJECTS.read(b, start, end, this, 0)
    if (!isRead || this.#hasOthers || this.starts[LOG]! < 0 || this.b[this.starts[LOG]!] !== QUOTE) return false
    this.escapeAt = indexOfByte(this.b, BACKSLASH, this.starts[LOG]! + 1, this.ends[LOG]! - 1)
    return true
  }
}

/** JSON_OBJECTS passes every value to `json`, so it never calls this function. */
function unused(): void {}

const NAMES = new WantedNames()
for (const name of ['log', 'stream', 'time', 'attrs']) NAMES.slot(name)
const [LOG, STREAM, TIME] = [0, 1, 2]
/** The bytes before the text of each member in the usual form. */
const HEADS = ['{"log":"', ',"stream":"', ',"time":"'].map(text => Buffer.from(text))
/** The kernel reads only whole lines of the usual form. */
const DOCKER_LINES: LineFormat = { number: 3, names: ['message', 'timestamp', 'stream'] }
/** The field of each member, by the index of the member. */
const OTHERS = [MESSAGE, STREAM_NAME, TIMESTAMP, ATTRS]

class DockerJson extends FieldsCodec {
  override readonly lineFormat = DOCKER_LINES
  readonly #line = new Line()
  /** The joined text of several lines, escaped as in a JSON string. */
  readonly #log = new GrowingBytes()

  constructor() {
    super(dockerJson, { names: [...DOCKER_LINES.names, 'attrs', 'partial'] })
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const line = this.#line
    const first = behindMark(b, start, end)
    let stop = end
    const isUsual = end < b.length && b[end]! < SPACE && line.readUsual(b, first, end)
    if (!isUsual) {
      stop = indexOfByte(b, LF, first, end)
      if (!line.read(b, first, stop)) return false
    }
    this.#putOthers(to)
    let isUnfinished: boolean
    if (stop >= end) isUnfinished = this.#putText(to)
    else {
      this.#log.clear()
      isUnfinished = this.#addPart()
      while (stop < end) {
        const next = stop + 1
        stop = indexOfByte(b, LF, next, end)
        if (!isUnfinished || !line.read(b, next, stop)) return false
        isUnfinished = this.#addPart()
      }
      to.string(MESSAGE, this.#log.bytes, 0, this.#log.length, true)
    }
    if (isUnfinished) to.text(PARTIAL, FIRST, 0, FIRST.length)
    return true
  }

  /** A range that begins with a quote lacks the closing quote. `read` passed such a range to the sink's `string`. */
  override value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown {
    return b[start] === QUOTE
      ? JSON.parse(`${b.toString('utf8', start, end)}"`)
      : super.value(b, start, end, name, receivedAt)
  }

  #putOthers(to: FieldSink): void {
    const { b, starts, ends, isUsual } = this.#line
    for (let n = 1; n < OTHERS.length; n++) {
      const start = starts[n]!
      if (start < 0) continue
      if (isUsual) to.string(OTHERS[n]!, b, start + 1, ends[n]! - 1, false)
      else to.json(OTHERS[n]!, b, start, ends[n]!)
    }
  }

  /** Writes the text without its line end. Returns whether the text had no line end. */
  #putText(to: FieldSink): boolean {
    const { b, starts, ends, escapeAt } = this.#line
    const start = starts[LOG]! + 1
    const end = withoutLineEnd(b, start, ends[LOG]! - 1)
    to.string(MESSAGE, b, start, end, escapeAt < end)
    return end === ends[LOG]! - 1
  }

  /** Appends the text without its line end to `#log`. Returns whether the text had no line end. */
  #addPart(): boolean {
    const { b, starts, ends } = this.#line
    const end = withoutLineEnd(b, starts[LOG]! + 1, ends[LOG]! - 1)
    this.#log.add(b, starts[LOG]! + 1, end)
    return end === ends[LOG]! - 1
  }
}

/** Returns where the content of a JSON string ends, not counting an escaped line end. */
function withoutLineEnd(b: Buffer, start: number, end: number): number {
  if (!endsWithEscape(b, start, end, N)) return end
  return endsWithEscape(b, start, end - 2, R) ? end - 4 : end - 2
}

export const dockerJson = defineCodec({
  name: 'docker_json',
  summary: 'Each line is in the format of the Docker logging driver `json-file`.',
  notes:
    'Events have `.message` (`log`, without its line end), `.timestamp` (`time`), `.stream`, and `.attrs` if Docker is configured to write labels or variables. ' +
    'Docker divides lines of the container after 16 KiB. The sources `file` and `stdin` join the parts: the parts up to the part with a line end are one event, with the time of the first part, even if lines of the other stream are between them. ' +
    'If an event ends early, `.partial` is `first`, as for the beginning of a line that is too long; the rest waits for at most a second, and is then a separate event. ' +
    '`parse` and other sources do not join the parts, but mark them with `.partial`. To read JSON that a container logs, `parse` the field `.message` with `codec: json`.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a line of Docker',
  undecodedHelp: 'Lines that are not in the format of Docker (json-file). They are kept as text.',
  joinsLines: false,
  readPart,
  examples: [
    {
      title: 'A line of a container',
      yaml: '',
      line: '{"log":"connection \\"a\\" refused\\n","stream":"stderr","time":"2026-01-31T12:00:00.123456789Z"}',
      event: { message: 'connection "a" refused', timestamp: '2026-01-31T12:00:00.123456789Z', stream: 'stderr' },
    },
    {
      title: 'The beginning of a long line',
      yaml: '',
      line: '{"log":"one, ","stream":"stdout","attrs":{"app":"shop"},"time":"2026-01-31T12:00:00.123456789Z"}',
      event: {
        message: 'one, ',
        stream: 'stdout',
        timestamp: '2026-01-31T12:00:00.123456789Z',
        attrs: { app: 'shop' },
        partial: 'first',
      },
    },
  ],
  create: () => new DockerJson(),
})
