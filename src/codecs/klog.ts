import { behindMark, defineCodec, NO_OPTIONS } from '../core/codec.js'
import { FieldName, type FieldSink } from '../lib/formats/field-sink.js'
import { nearest } from '../lib/formats/syslog-time.js'
import { FieldsCodec } from './fields-codec.js'
import { fail, indexOfByte, putNumber, whatFailed } from './web-log.js'

const SPACE = 0x20
const COLON = 0x3a
const CLOSE = 0x5d
/** Length of `0505 17:59:40.692994`. */
const TIME = 20

const LEVELS = new Map(
  ['info', 'warning', 'error', 'fatal'].map(level => [level.toUpperCase().charCodeAt(0), Buffer.from(level)]),
)
const LEVEL = new FieldName('level')
const TIMESTAMP = new FieldName('timestamp')
const ID = new FieldName('id')
const FILE = new FieldName('file')
const LINE = new FieldName('line')
const MESSAGE = new FieldName('message')
const WRITTEN = /^(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)$/

/** The second that was read last, with its fraction cut off, and its time. */
let lastSecond = ''
let lastWall = Number.NaN
let lastTime: string | undefined

/** `0505 17:59:40.692994` as ISO 8601. It is UTC, in the year that brings it nearest to `wall`. */
function timeOf(text: string, wall: number): string | undefined {
  if (!/^\.\d{6}$/.test(text.slice(-7))) return undefined
  const second = text.slice(0, -7)
  if (second !== lastSecond || wall !== lastWall) {
    lastTime = nearestTime(second, wall)
    lastSecond = second
    lastWall = wall
  }
  return lastTime === undefined ? undefined : `${lastTime}${text.slice(-7)}Z`
}

function nearestTime(second: string, wall: number): string | undefined {
  const parts = WRITTEN.exec(second)?.slice(1).map(Number)
  if (!parts) return undefined
  const [month, day, hour, minute, seconds] = parts as [number, number, number, number, number]
  if (hour > 23 || minute > 59 || seconds > 59) return undefined
  const time = nearest(year => {
    const ms = Date.UTC(year, month - 1, day, hour, minute, seconds)
    return new Date(ms).getUTCDate() === day && new Date(ms).getUTCMonth() === month - 1 ? ms : Number.NaN
  }, wall)
  return Number.isNaN(time) ? undefined : new Date(time).toISOString().slice(0, 19)
}

class Klog extends FieldsCodec {
  constructor() {
    super(klog, { names: ['level', 'timestamp', 'id', 'file', 'line', 'message'] })
  }

  read(b: Buffer, start: number, end: number, to: FieldSink, receivedAt: number): boolean {
    let p = behindMark(b, start, end)
    while (p < end && b[p]! <= SPACE) p++
    const level = LEVELS.get(b[p]!)
    if (!level || p >= end) return fail(p, 'the letter of a level: I, W, E or F')
    to.text(LEVEL, level, 0, level.length)
    p++
    const time = p + TIME < end ? timeOf(b.toString('latin1', p, p + TIME), receivedAt) : undefined
    if (time === undefined) return fail(p, 'a time such as 0505 17:59:40.692994')
    to.value(TIMESTAMP, time)
    p += TIME
    while (p < end && b[p] === SPACE) p++
    let stop = indexOfByte(b, SPACE, p, end)
    if (stop >= end || !putNumber(to, ID, b, p, stop)) return fail(p, 'the number of a thread')
    p = stop + 1
    stop = indexOfByte(b, CLOSE, p, end)
    let colon = stop - 1
    while (colon > p && b[colon] !== COLON) colon--
    if (stop >= end || colon <= p || !putNumber(to, LINE, b, colon + 1, stop)) return fail(p, 'FILE:LINE and "]"')
    to.text(FILE, b, p, colon)
    p = stop + 1
    if (p < end && b[p] === SPACE) p++
    while (end > p && b[end - 1]! <= SPACE) end--
    to.text(MESSAGE, b, p, end)
    return true
  }

  override problem(_b: Buffer, start: number): string {
    return whatFailed(start)
  }
}

export const klog = defineCodec({
  name: 'klog',
  summary: 'Each line is in the format of klog and glog, the logs of Kubernetes and of other programs in Go and C++.',
  notes:
    'Events have `.level` (info, warning, error or fatal), `.timestamp`, `.id` (of the thread, a number), `.file`, `.line` (a number) and `.message`. ' +
    '`.timestamp` is ISO 8601. The line has a time without a zone and a year: it is read as UTC, which containers use, in the year that brings it nearest to the present.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a line of klog',
  undecodedHelp: 'Lines that are not in the format of klog. They are kept as text.',
  joinsLines: true,
  examples: [
    {
      title: 'A line of a controller, read in September 2001',
      yaml: '',
      line: 'E0909 13:07:09.000123    1309 controller.go:114] loading failed, will be retried: not found',
      event: {
        level: 'error',
        timestamp: '2001-09-09T13:07:09.000123Z',
        id: 1309,
        file: 'controller.go',
        line: 114,
        message: 'loading failed, will be retried: not found',
      },
    },
  ],
  create: () => new Klog(),
})
