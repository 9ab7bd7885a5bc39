import { COLON, COMMA, QUOTE, SPACE } from '../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import { compileFormat } from '../../lib/formats/strptime.js'
import { behindMark, defineCodec, NO_OPTIONS } from '../codec.js'
import { FieldsCodec } from './fields-codec.js'
import { firstOf, LastTime } from './log-times.js'
import {
  ACCESS_FIELDS,
  ACCESS_LINES,
  fail,
  indexOfByte,
  putDigits,
  putQuoted,
  putRequest,
  putUnlessDash,
  quotedEnd,
  readAccessLog,
  whatFailed,
} from './web-log/web-log.js'

const HASH = 0x23
const STAR = 0x2a
const CLOSE = 0x5d
/** Length of `2026/01/31 12:00:00`. */
const TIME = 19

const TIMESTAMP = new FieldName('timestamp')
const SEVERITY = new FieldName('severity')
const PID = new FieldName('pid')
const TID = new FieldName('tid')
const CID = new FieldName('cid')
const MESSAGE = new FieldName('message')
/** The fields that nginx appends to an error's message, by name. `request` becomes method, path and protocol. */
const APPENDED = new Map([
  ['client', new FieldName('client')],
  ['server', new FieldName('server')],
  ['upstream', new FieldName('upstream')],
  ['host', new FieldName('http_host')],
  ['referrer', new FieldName('referer')],
])
const FIELDS = [...ACCESS_FIELDS, 'severity', 'pid', 'tid', 'cid', 'message', 'server', 'upstream', 'http_host']

const errorTime = new LastTime(firstOf([compileFormat('%Y/%m/%d %H:%M:%S')]))

/** Reads a line such as `2026/01/31 12:00:00 [error] 31#31: *7 open() failed, client: 192.0.2.7, server: a`. */
function readErrorLog(b: Buffer, start: number, end: number, to: FieldSink): boolean {
  const time = start + TIME <= end ? errorTime.iso(b, start, start + TIME) : undefined
  if (!time) return fail(start, 'a time such as 2026/01/31 12:00:00')
  to.text(TIMESTAMP, time, 0, time.length)
  let p = start + TIME + 2
  let stop = p
  while (stop < end && b[stop] !== CLOSE) stop++
  if (stop >= end || stop === p) return fail(start + TIME, 'a severity such as [error]')
  to.text(SEVERITY, b, p, stop)
  p = stop + 2
  stop = p
  while (stop < end && b[stop] !== HASH && b[stop] !== SPACE) stop++
  if (stop >= end || b[stop] !== HASH || !putDigits(to, PID, b, p, stop)) return fail(p, 'a process id and "#"')
  p = stop + 1
  while (stop < end && b[stop] !== COLON && b[stop] !== SPACE) stop++
  if (stop >= end || b[stop] !== COLON || !putDigits(to, TID, b, p, stop)) return fail(p, 'a thread id and ":"')
  p = stop + 2
  if (p < end && b[p] === STAR) {
    stop = p + 1
    while (stop < end && b[stop] !== SPACE) stop++
    if (!putDigits(to, CID, b, p + 1, stop)) return fail(p, 'the number of a connection')
    p = stop + 1
  }
  const from = Math.min(p, end)
  const appended = appendedAt(b, from, end)
  to.text(MESSAGE, b, from, appended)
  putAppended(b, appended, end, to)
  return true
}

const CLIENT = Buffer.from(', client: ')

/** Returns the start of the text that nginx appends to a message, or `end` if nothing is appended. */
function appendedAt(b: Buffer, start: number, end: number): number {
  const at = b.subarray(start, end).indexOf(CLIENT)
  return at < 0 ? end : start + at
}

/** Writes the fields after a message, as in `, client: 192.0.2.7, request: "GET / HTTP/1.1"`. */
function putAppended(b: Buffer, start: number, end: number, to: FieldSink): void {
  for (let p = start; p < end; ) {
    const nameStart = p + 2
    p = nameStart
    while (p < end && b[p] !== COLON) p++
    const name = b.toString('latin1', nameStart, Math.min(p, nameStart + 16))
    const isQuoted = b[p + 2] === QUOTE && p + 2 < end
    const valueStart = Math.min(isQuoted ? p + 3 : p + 2, end)
    let valueEnd = isQuoted ? quotedEnd(b, valueStart, end) : indexOfByte(b, COMMA, valueStart, end)
    if (valueEnd < 0) valueEnd = end
    const field = APPENDED.get(name)
    if (field) (isQuoted ? putQuoted : putUnlessDash)(to, field, b, valueStart, valueEnd)
    else if (name === 'request' && isQuoted) putRequest(to, b, valueStart, valueEnd)
    p = isQuoted ? valueEnd + 1 : valueEnd
  }
}

class Nginx extends FieldsCodec {
  override readonly lineFormat = ACCESS_LINES

  constructor() {
    super(nginx, { names: FIELDS })
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const from = behindMark(b, start, end)
    const isError = end - from > TIME && b[from + 4] === 0x2f && b[from + 7] === 0x2f
    return isError ? readErrorLog(b, from, end, to) : readAccessLog(b, from, end, to, false)
  }

  override problem(b: Buffer, start: number): string {
    return whatFailed(behindMark(b, start, b.length))
  }
}

export const nginx = defineCodec({
  name: 'nginx',
  summary: 'Each line is from an access log or the error log of nginx.',
  notes:
    'Access logs may be in the format `combined`, or in the format `main` of the nginx packages. More text may follow. ' +
    'Events have `.client`, `.user`, `.timestamp`, `.method`, `.path`, `.protocol`, `.status`, `.bytes`, `.referer`, `.user_agent`, ' +
    '`.forwarded_for`, and the rest of the line as `.rest`. `.status` and `.bytes` are numbers; a value that is `-` or `""` in the log is missing. A request in another form than ' +
    '`GET /path HTTP/1.1` is kept whole in `.request`. A line that begins with a time such as `2026/01/31 12:00:00` is from the error log, and has `.timestamp`, ' +
    '`.severity`, `.pid`, `.tid`, `.cid` (the connection), `.message` and, if they follow the message, `.client`, `.server`, `.method`, `.path`, `.protocol`, `.upstream`, ' +
    '`.http_host` and `.referer`. `.timestamp` is ISO 8601 in UTC; the error log has local time. `\\x22` in a value becomes the byte it stands for; a value whose bytes are not UTF-8 keeps its escapes.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a log line of nginx',
  undecodedHelp: 'Lines that are not from an access log or error log of nginx. They are kept as text.',
  joinsLines: true,
  examples: [
    {
      title: 'A request',
      yaml: '',
      line: '192.0.2.7 - ada [31/Jan/2026:12:00:00 +0100] "GET /a?b=1 HTTP/1.1" 200 612 "-" "curl/8.5.0"',
      event: {
        client: '192.0.2.7',
        user: 'ada',
        timestamp: '2026-01-31T11:00:00.000Z',
        method: 'GET',
        path: '/a?b=1',
        protocol: 'HTTP/1.1',
        status: 200,
        bytes: 612,
        user_agent: 'curl/8.5.0',
      },
    },
  ],
  create: () => new Nginx(),
})
