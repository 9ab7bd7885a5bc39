import { behindMark, defineCodec, NO_OPTIONS } from '../core/codec.js'
import { FieldName, type FieldSink } from '../lib/formats/field-sink.js'
import { GrowingBytes } from '../lib/formats/growing-bytes.js'
import { slotOf, WantedNames } from '../lib/formats/json-scan.js'
import { BEGINS, JOINS, type Joiner } from '../lib/lines/record-splitter.js'
import { FieldsCodec } from './fields-codec.js'
import { JSON_OBJECTS } from './json.js'
import { indexOfByte } from './web-log.js'

const LF = 0x0a
const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const N = 0x6e
const R = 0x72
const STREAM_MARK = Buffer.from('"stream":"std')
/** Docker divides lines after 16 KiB, each byte of which takes up to six as JSON. */
const MOST_PART_BYTES = 128 * 1024

const MESSAGE = new FieldName('message')
const TIMESTAMP = new FieldName('timestamp')
const STREAM = new FieldName('stream')
const ATTRS = new FieldName('attrs')
const PARTIAL = new FieldName('partial')
const TRUE = Buffer.from('true')

/** Where the name of the stream is in a line as Docker writes it, behind the text; -1 if it is nowhere. */
function streamMark(b: Buffer, start: number, end: number): number {
  next: for (let p = end - STREAM_MARK.length; p >= start; p--) {
    if (b[p] !== QUOTE) continue
    for (let i = 1; i < STREAM_MARK.length; i++) if (b[p + i] !== STREAM_MARK[i]) continue next
    return p
  }
  return -1
}

/** Whether the inside of a JSON string that ends at `end` ends with the escape of this letter. */
function endsWithEscape(b: Buffer, start: number, end: number, letter: number): boolean {
  let p = end - 1
  if (p <= start || b[p] !== letter) return false
  while (p > start && b[p - 1] === BACKSLASH) p--
  return (end - 1 - p) % 2 === 1
}

const joiner: Joiner = {
  judgedBytes: MOST_PART_BYTES,
  judge(state, b, start, end) {
    const p = streamMark(b, start, end)
    // The next letter is that of `out` or `err`.
    const stream = p < 0 ? 0 : b[p + STREAM_MARK.length] === 0x6f ? 1 : 2
    return (stream > 0 && stream === state ? JOINS : BEGINS) | (stream << 2)
  },
  ends(b, start, end) {
    const p = streamMark(b, start, end)
    if (p - 2 <= start || b[p - 1] !== COMMA || b[p - 2] !== QUOTE) return true
    return endsWithEscape(b, start, p - 2, N)
  },
}

/** Finds the members of one line. */
class Members implements FieldSink {
  b: Buffer = Buffer.alloc(0)
  readonly starts = new Int32Array(4)
  readonly ends = new Int32Array(4)
  hasOthers = false

  readonly text = unused
  readonly value = unused

  json(name: FieldName, b: Buffer, start: number, end: number): void {
    this.b = b
    const which = slotOf(name.bytes, name.start, name.end, NAMES)
    if (which < 0) this.hasOthers = true
    else {
      this.starts[which] = start
      this.ends[which] = end
    }
  }

  read(b: Buffer, start: number, end: number): boolean {
    this.starts.fill(-1)
    this.hasOthers = false
    return JSON_OBJECTS.read(b, start, end, this, 0) && !this.hasOthers && this.isString(LOG)
  }

  isString(which: number): boolean {
    return this.starts[which]! >= 0 && this.b[this.starts[which]!] === QUOTE
  }
}

/** A JSON object is given as JSON alone. */
function unused(): void {}

const NAMES = new WantedNames()
for (const name of ['log', 'stream', 'time', 'attrs']) NAMES.slot(name)
const LOG = 0
const OTHERS = [STREAM, TIMESTAMP, ATTRS]

class DockerJson extends FieldsCodec {
  readonly #line = new Members()
  /** The text as a JSON string. */
  readonly #log = new GrowingBytes()

  constructor() {
    super(dockerJson, { names: ['message', 'timestamp', 'stream', 'attrs', 'partial'] })
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const line = this.#line
    const log = this.#log
    const first = behindMark(b, start, end)
    let stop = indexOfByte(b, LF, first, end)
    if (!line.read(b, first, stop)) return false
    const isOne = stop >= end
    for (let n = 1; n <= OTHERS.length; n++) {
      if (line.starts[n]! >= 0) to.json(OTHERS[n - 1]!, line.b, line.starts[n]!, line.ends[n]!)
    }
    log.clear()
    log.addByte(QUOTE)
    let goesOn = this.#addPart()
    while (stop < end) {
      const next = stop + 1
      stop = indexOfByte(b, LF, next, end)
      if (!goesOn || !line.read(b, next, stop)) return false
      goesOn = this.#addPart()
    }
    if (isOne && indexOfByte(log.bytes, BACKSLASH, 1, log.length) === log.length) {
      const from = line.starts[LOG]! + 1
      to.text(MESSAGE, line.b, from, from + log.length - 1)
    } else {
      log.addByte(QUOTE)
      to.json(MESSAGE, log.bytes, 0, log.length)
    }
    if (goesOn) to.json(PARTIAL, TRUE, 0, TRUE.length)
    return true
  }

  /** Adds the text of the line without its line end. Returns whether it has none. */
  #addPart(): boolean {
    const { b, starts, ends } = this.#line
    const from = starts[LOG]! + 1
    let to = ends[LOG]! - 1
    const isWhole = endsWithEscape(b, from, to, N)
    if (isWhole) {
      to -= 2
      if (endsWithEscape(b, from, to, R)) to -= 2
    }
    this.#log.add(b, from, to)
    return !isWhole
  }
}

export const dockerJson = defineCodec({
  name: 'docker_json',
  summary: 'Each line is in the format of the logging driver `json-file` of Docker.',
  notes:
    'Events have `.message` (`log`, without its line end), `.timestamp` (`time`), `.stream`, and `.attrs` if Docker is configured to write labels or variables. ' +
    'A line of the container that Docker divided, after 16 KiB, is joined again by the sources `file` and `stdin`: up to the one that has a line end they are one event, with the time of the first. ' +
    'Lines of the other stream in between end it. What came without its end has `.partial` true; the rest waits for at most a second and is then an event of its own. ' +
    '`parse` sees one line, and marks it. To read JSON that a container logs, `parse` the field `.message` with `codec: json`.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a line of Docker',
  undecodedHelp: 'Lines that are not in the format of Docker (json-file). They are kept as text.',
  joinsLines: false,
  joiner,
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
        partial: true,
      },
    },
  ],
  create: () => new DockerJson(),
})
