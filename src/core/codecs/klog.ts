import { COLON, POINT, SPACE, ZERO } from '../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import { nearest } from '../../lib/formats/strptime.js'
import { behindMark, defineCodec, NO_OPTIONS } from '../codec.js'
import { FieldsCodec } from './fields-codec.js'
import { fail, indexOfByte, putDigits, whatFailed } from './web-log/web-log.js'

const CLOSE = 0x5d
/** Lengths of `0505 17:59:40.692994`, of its part before the point, and of this part in ISO 8601. */
const TIME = 20
const SECOND = 13
const ISO_SECOND = 19

const LEVELS: (Buffer | undefined)[] = new Array(256).fill(undefined)
for (const level of ['info', 'warning', 'error', 'fatal']) {
  LEVELS[level.toUpperCase().charCodeAt(0)] = Buffer.from(level)
}
const LEVEL = new FieldName('level')
const TIMESTAMP = new FieldName('timestamp')
const ID = new FieldName('id')
const FILE = new FieldName('file')
const LINE = new FieldName('line')
const MESSAGE = new FieldName('message')
const WRITTEN = /^(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)$/
/** A leap year, in which every valid date exists. */
const ANY_YEAR = 2000

/** The last time that was read, without its fraction, and whether this time is valid. */
const lastSecond = Buffer.alloc(SECOND)
let isSecond = false
/**
 * `iso`: `lastSecond` as ISO 8601, with room for the fraction. `isoWall`: the time of receipt that determined the year.
 */
const iso = Buffer.from('0000-00-00T00:00:00.000000Z')
let isoWall = Number.NaN
let hasIso = false

/** Whether a time such as `0505 17:59:40.692994` is at `p`, with a date that exists in a leap year. */
function isTime(b: Buffer, p: number): boolean {
  if (b[p + SECOND] !== POINT) return false
  for (let i = p + SECOND + 1; i < p + TIME; i++) if (b[i]! < ZERO || b[i]! > ZERO + 9) return false
  // Compares from the end, because consecutive times differ there.
  for (let i = SECOND - 1; i >= 0; i--) {
    if (b[p + i] === lastSecond[i]) continue
    b.copy(lastSecond, 0, p, p + SECOND)
    isSecond = !Number.isNaN(timeIn(ANY_YEAR))
    isoWall = Number.NaN
    break
  }
  return isSecond
}

/** Returns `lastSecond` in the given year as milliseconds; NaN if the date does not exist in this year. */
function timeIn(year: number): number {
  const parts = WRITTEN.exec(lastSecond.toString('latin1'))
  if (!parts) return Number.NaN
  const [month, day, hour, minute, second] = parts.slice(1).map(Number) as [number, number, number, number, number]
  if (hour > 23 || minute > 59 || second > 60) return Number.NaN
  const date = new Date(Date.UTC(year, month - 1, day))
  if (date.getUTCDate() !== day || date.getUTCMonth() !== month - 1) return Number.NaN
  return date.getTime() + ((hour * 60 + minute) * 60 + second) * 1000
}

/** Sets `iso` to the UTC time at `p`, in the year nearest to `wall`. Returns false if no near year has this date. */
function setIso(b: Buffer, p: number, wall: number): boolean {
  if (wall !== isoWall) {
    const time = nearest(timeIn, wall)
    hasIso = !Number.isNaN(time)
    if (hasIso) iso.write(new Date(time).toISOString().slice(0, ISO_SECOND), 'latin1')
    isoWall = wall
  }
  for (let i = SECOND + 1; i < TIME; i++) iso[i + ISO_SECOND - SECOND] = b[p + i]!
  return hasIso
}

class Klog extends FieldsCodec {
  constructor() {
    super(klog, { names: ['level', 'timestamp', 'id', 'file', 'line', 'message'] })
  }

  read(b: Buffer, start: number, end: number, to: FieldSink, receivedAt: number): boolean {
    let p = behindMark(b, start, end)
    while (p < end && b[p]! <= SPACE) p++
    const level = p < end ? LEVELS[b[p]!] : undefined
    if (!level) return fail(p, 'the letter of a level: I, W, E or F')
    to.text(LEVEL, level, 0, level.length)
    p++
    if (p + TIME >= end || !isTime(b, p)) return fail(p, 'a time such as 0505 17:59:40.692994')
    // `receivedAt` is 0 in a scan, because a scan does not need values.
    if (receivedAt !== 0 && setIso(b, p, receivedAt)) to.text(TIMESTAMP, iso, 0, iso.length)
    else to.value(TIMESTAMP, undefined)
    p += TIME
    while (p < end && b[p] === SPACE) p++
    let stop = indexOfByte(b, SPACE, p, end)
    if (stop >= end || !putDigits(to, ID, b, p, stop)) return fail(p, 'the number of a thread')
    p = stop + 1
    stop = indexOfByte(b, CLOSE, p, end)
    let colon = stop - 1
    while (colon > p && b[colon] !== COLON) colon--
    if (stop >= end || colon <= p || !putDigits(to, LINE, b, colon + 1, stop)) return fail(p, 'FILE:LINE and "]"')
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
    '`.timestamp` is ISO 8601. The time in the line has neither zone nor year: it is read as UTC, which containers use, in the year that makes it nearest to the present.',
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
