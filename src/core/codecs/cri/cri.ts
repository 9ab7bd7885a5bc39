import { COLON, CR, LF, SPACE } from '../../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../../lib/formats/field-sink.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { parseIsoTime } from '../../../lib/formats/iso-time.js'
import { PART as UNFINISHED } from '../../../lib/lines/part-splitter.js'
import { behindMark, defineCodec, NO_OPTIONS } from '../../codec.js'
import type { LineFormat } from '../field-lines.js'
import { FieldsCodec } from '../fields-codec.js'
import { fail, indexOfByte, whatFailed } from '../web-log/web-log.js'

const PART = 0x50
const FULL = 0x46
const TIME_MARK = 0x54
/** Length of `stdout` and `stderr`, which differ in the fourth letter. */
const STREAM = 6
const STREAMS = [Buffer.from('stdout'), Buffer.from('stderr')]

/** The kernel reads only whole lines. */
const CRI_LINES: LineFormat = { number: 2, names: ['message', 'timestamp', 'stream'] }

const MESSAGE = new FieldName('message')
const TIMESTAMP = new FieldName('timestamp')
const STREAM_NAME = new FieldName('stream')
const PARTIAL = new FieldName('partial')
// The value of `partial` for an unfinished line. The first piece of an over-long line has the same value.
const FIRST = Buffer.from('first')

/** Returns 1 if `stdout` and a space are at `p`, 2 for `stderr` and a space, otherwise 0. */
function streamAt(b: Buffer, p: number, end: number): number {
  if (p + STREAM >= end || b[p + STREAM] !== SPACE) return 0
  const number = b[p + 3] === STREAMS[0]![3] ? 1 : 2
  const name = STREAMS[number - 1]!
  for (let i = 0; i < STREAM; i++) if (b[p + i] !== name[i]) return 0
  return number
}

/** In the line that was read last: where the tag and the text begin. */
let tagStart = 0
let textStart = 0

/** Sets `tagStart` for the line [start, end). Returns the number of the line's stream, or 0 if it is unknown. */
function headOf(b: Buffer, start: number, end: number): number {
  const stop = indexOfByte(b, SPACE, start, end)
  const stream = streamAt(b, stop + 1, end)
  tagStart = stop + STREAM + 2
  return stream
}

function isPart(b: Buffer, end: number): boolean {
  return b[tagStart] === PART && (tagStart + 1 >= end || b[tagStart + 1] === SPACE || b[tagStart + 1] === COLON)
}

function readPart(b: Buffer, start: number, end: number): number {
  const stream = headOf(b, start, end)
  return stream > 0 && isPart(b, end) ? stream | UNFINISHED : stream
}

class Cri extends FieldsCodec {
  override readonly lineFormat = CRI_LINES
  readonly #text = new GrowingBytes()

  constructor() {
    super(cri, { names: [...CRI_LINES.names, 'partial'] })
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const first = behindMark(b, start, end)
    const stream = readHead(b, first, end)
    if (stream === 0) return false
    let isUnfinished = isPart(b, end)
    const [time, text] = [tagStart - STREAM - 2, textStart]
    let lineEnd = isUnfinished ? indexOfByte(b, LF, text, end) : end
    if (lineEnd < end) {
      this.#text.clear()
      this.#add(b, text, lineEnd)
      while (lineEnd < end) {
        const next = lineEnd + 1
        lineEnd = indexOfByte(b, LF, next, end)
        if (readHead(b, next, lineEnd) !== stream) return fail(next, 'a line of the same stream')
        isUnfinished = isPart(b, lineEnd)
        this.#add(b, textStart, lineEnd)
      }
      to.text(MESSAGE, this.#text.bytes, 0, this.#text.length)
    } else to.text(MESSAGE, b, text, end)
    to.text(TIMESTAMP, b, first, time)
    to.text(STREAM_NAME, STREAMS[stream - 1]!, 0, STREAM)
    if (isUnfinished) to.text(PARTIAL, FIRST, 0, FIRST.length)
    return true
  }

  #add(b: Buffer, start: number, end: number): void {
    this.#text.add(b, start, end > start && b[end - 1] === CR ? end - 1 : end)
  }

  override problem(_b: Buffer, start: number): string {
    return whatFailed(start)
  }
}

/** Like `headOf`, but also checks the time and the tag, and sets `textStart`. */
function readHead(b: Buffer, start: number, end: number): number {
  const stream = headOf(b, start, end)
  const time = tagStart - STREAM - 2
  const isTime = time - start > 18 && b[start + 10] === TIME_MARK && !Number.isNaN(parseIsoTime(b, start, time))
  if (!isTime) fail(start, 'a time such as 2026-01-31T12:00:00.123456789Z and a space')
  else if (stream === 0) fail(time + 1, 'stdout or stderr and a space')
  else {
    const stop = indexOfByte(b, SPACE, tagStart, end)
    textStart = Math.min(stop + 1, end)
    if (isPart(b, end) || (b[tagStart] === FULL && (stop === tagStart + 1 || b[tagStart + 1] === COLON))) return stream
    fail(tagStart, 'P or F and a space')
  }
  return 0
}

export const cri = defineCodec({
  name: 'cri',
  summary: 'Each line is in the format of container runtimes such as containerd and CRI-O, as in `/var/log/pods`.',
  notes:
    'Events have `.message`, `.timestamp` and `.stream`. The runtime divides lines of the container after 16 KiB, and marks all parts but the last with `P`. The sources `file` and `stdin` join the parts, `file` also across a rotation: ' +
    'the parts up to the part with `F` are one event, with the time of the first part, even if lines of the other stream are between them. If an event ends early, `.partial` is `first`, as for the beginning of a line that is too long; ' +
    'the rest waits for at most a second, and is then a separate event. `parse` and other sources do not join the parts, but mark them with `.partial`.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a line of a container runtime',
  undecodedHelp: 'Lines that are not in the format of container runtimes (CRI). They are kept as text.',
  joinsLines: false,
  readPart,
  examples: [
    {
      title: 'A line of a container',
      yaml: '',
      line: '2026-01-31T12:00:00.123456789Z stderr F connection refused',
      event: { message: 'connection refused', timestamp: '2026-01-31T12:00:00.123456789Z', stream: 'stderr' },
    },
    {
      title: 'The beginning of a long line',
      yaml: '',
      line: '2026-01-31T12:00:00.123456789Z stdout P one, ',
      event: { message: 'one, ', timestamp: '2026-01-31T12:00:00.123456789Z', stream: 'stdout', partial: 'first' },
    },
  ],
  create: () => new Cri(),
})
