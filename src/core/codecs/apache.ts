import { COLON, isAt, SPACE } from '../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import { compileFormat } from '../../lib/formats/strptime.js'
import { behindMark, defineCodec, NO_OPTIONS } from '../codec.js'
import { FieldsCodec } from './fields-codec.js'
import { firstOf, LastTime } from './log-times.js'
import {
  ACCESS_FIELDS,
  ACCESS_LINES_WITH_HOSTS,
  colonOfPort,
  fail,
  indexOfByte,
  putDigits,
  readAccessLog,
  whatFailed,
} from './web-log/web-log.js'

const OPEN = 0x5b
const CLOSE = 0x5d

const TIMESTAMP = new FieldName('timestamp')
const MODULE = new FieldName('module')
const SEVERITY = new FieldName('severity')
const PID = new FieldName('pid')
const TID = new FieldName('tid')
const CLIENT = new FieldName('client')
const PORT = new FieldName('port')
const MESSAGE = new FieldName('message')
const FIELDS = [...ACCESS_FIELDS, 'vhost', 'port', 'module', 'severity', 'pid', 'tid', 'message']

const PID_WORD = Buffer.from('pid ')
const TID_WORD = Buffer.from('tid ')
const CLIENT_WORD = Buffer.from('client ')

const errorTime = new LastTime(
  firstOf([
    compileFormat('%a %b %d %H:%M:%S%.f %Y'),
    compileFormat('%Y-%m-%d %H:%M:%S%.f'),
    compileFormat('%d/%b/%Y:%H:%M:%S %z'),
  ]),
)

/** Reads `[Sat Jan 31 12:00:00.123456 2026] [core:error] [pid 35:tid 43] [client 192.0.2.7:1] AH1: text`. */
function readErrorLog(b: Buffer, start: number, end: number, to: FieldSink): boolean {
  let stop = indexOfByte(b, CLOSE, start, end)
  const time = stop < end ? errorTime.iso(b, start + 1, stop) : undefined
  if (!time) return fail(start, 'a time such as [Sat Jan 31 12:00:00 2026]')
  to.text(TIMESTAMP, time, 0, time.length)
  let p = stop + 2
  stop = indexOfByte(b, CLOSE, p, end)
  if (stop >= end || b[p - 1] !== SPACE || b[p] !== OPEN)
    return fail(p - 1, 'a severity such as [error] or [core:error]')
  const colon = indexOfByte(b, COLON, p, stop)
  // Apache versions that log the module also log the client's port, even after an IPv6 address without brackets.
  const hasPorts = colon < stop
  if (colon < stop && colon > p + 1) to.text(MODULE, b, p + 1, colon)
  to.text(SEVERITY, b, colon < stop ? colon + 1 : p + 1, stop)
  p = stop + 1
  while (p + 1 < end && b[p] === SPACE && b[p + 1] === OPEN) {
    stop = indexOfByte(b, CLOSE, p, end)
    if (stop >= end || !putBracket(b, p + 2, stop, to, hasPorts)) break
    p = stop + 1
  }
  if (p < end && b[p] === SPACE) p++
  to.text(MESSAGE, b, p, end)
  return true
}

/**
 * Writes the fields in one pair of brackets, such as `pid 35:tid 43`. Returns false if Apache does not write such
 * content.
 */
function putBracket(b: Buffer, start: number, end: number, to: FieldSink, hasPorts: boolean): boolean {
  if (isAt(b, start, end, CLIENT_WORD)) {
    const from = start + CLIENT_WORD.length
    const colon = colonOfPort(b, from, end, hasPorts)
    to.text(CLIENT, b, from, colon < 0 ? end : colon)
    if (colon > 0) to.json(PORT, b, colon + 1, end)
    return true
  }
  if (!isAt(b, start, end, PID_WORD)) return false
  const colon = indexOfByte(b, COLON, start, end)
  if (!putDigits(to, PID, b, start + PID_WORD.length, colon)) return false
  if (colon < end && isAt(b, colon + 1, end, TID_WORD)) putDigits(to, TID, b, colon + 1 + TID_WORD.length, end)
  return true
}

class Apache extends FieldsCodec {
  override readonly lineFormat = ACCESS_LINES_WITH_HOSTS

  constructor() {
    super(apache, { names: FIELDS })
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const from = behindMark(b, start, end)
    return b[from] === OPEN && from < end ? readErrorLog(b, from, end, to) : readAccessLog(b, from, end, to, true)
  }

  override problem(b: Buffer, start: number): string {
    return whatFailed(behindMark(b, start, b.length))
  }
}

export const apache = defineCodec({
  name: 'apache',
  summary: 'Each line is from an access log or the error log of the Apache HTTP server.',
  notes:
    'Access logs may be in the format `common`, `combined` or `vhost_combined`. Events have `.client`, `.identity`, `.user`, `.timestamp`, `.method`, ' +
    '`.path`, `.protocol`, `.status`, `.bytes`, `.referer`, `.user_agent`, and the rest of the line as `.rest`. With `vhost_combined`, they also have `.vhost` and `.port`. ' +
    '`.status`, `.bytes` and `.port` are numbers; a value that is `-` or `""` in the log is missing. A request in another form than `GET /path HTTP/1.1` is kept whole in `.request`. ' +
    'A line that begins with `[` is from the error log, and has `.timestamp`, `.module`, `.severity`, `.pid`, `.tid`, `.client`, `.port` (of the client) and `.message`. ' +
    '`.timestamp` is ISO 8601 in UTC; the error log has local time. Escapes such as `\\"` and `\\x22` in a value are resolved if the result is UTF-8.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a log line of Apache',
  undecodedHelp: 'Lines that are not from an access log or error log of Apache. They are kept as text.',
  joinsLines: true,
  examples: [
    {
      title: 'A request in the common format',
      yaml: '',
      line: '192.0.2.7 - ada [31/Jan/2026:12:00:00 +0000] "GET /a.gif HTTP/1.0" 304 -',
      event: {
        client: '192.0.2.7',
        user: 'ada',
        timestamp: '2026-01-31T12:00:00.000Z',
        method: 'GET',
        path: '/a.gif',
        protocol: 'HTTP/1.0',
        status: 304,
      },
    },
  ],
  create: () => new Apache(),
})
