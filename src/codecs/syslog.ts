import { behindMark, Codec, defineCodec, NO_OPTIONS, putSlot } from '../core/codec.js'
import type { Fields } from '../core/event/event.js'
import type { EventFields } from '../core/event/event-fields.js'
import { FieldName, type FieldSink } from '../lib/formats/field-sink.js'
import type { WantedNames } from '../lib/formats/json-scan.js'
import {
  APP,
  DATA,
  fieldOfPriority,
  HOST,
  isClassicTime,
  MESSAGE,
  MSGID,
  PID,
  PRIORITY,
  parseSyslog,
  partEnds,
  partStarts,
  scanSyslog,
  TIME,
} from '../lib/formats/syslog.js'
import { structuredData } from '../lib/formats/syslog-data.js'
import { classicTime } from '../lib/formats/syslog-time.js'

/** The part of the line for each field. */
const PARTS = new Map([
  ['message', MESSAGE],
  ['timestamp', TIME],
  ['host', HOST],
  ['app', APP],
  ['pid', PID],
  ['msgid', MSGID],
  ['structured_data', DATA],
  ['facility', PRIORITY],
  ['severity', PRIORITY],
  ['severity_code', PRIORITY],
])
const NAMES = new Map([...PARTS.keys()].map(name => [name, new FieldName(name)]))

/** Whether the bytes of a part of the line that was scanned last are not its text. */
function isSpecial(part: number): boolean {
  return part === PRIORITY || part === DATA || (part === TIME && isClassicTime())
}

class Syslog extends Codec {
  constructor() {
    super(syslog)
  }

  override get eventFields(): EventFields {
    return { names: [...PARTS.keys()] }
  }

  scan(b: Buffer, start: number, end: number, { names }: WantedNames, out: Int32Array, at: number): boolean {
    if (!scanSyslog(b, behindMark(b, start, end), end)) return false
    for (let slot = 0; slot < names.length; slot++) {
      const part = PARTS.get(names[slot]!)
      if (part === undefined || partStarts[part]! < 0) continue
      putSlot(out, at, slot, partStarts[part]!, partEnds[part]!, isSpecial(part))
    }
    return true
  }

  fields(b: Buffer, start: number, end: number, receivedAt: number): Fields {
    return parseSyslog(b, behindMark(b, start, end), end, receivedAt)!
  }

  override read(b: Buffer, start: number, end: number, to: FieldSink, receivedAt: number): boolean {
    if (!scanSyslog(b, behindMark(b, start, end), end)) return false
    for (const [field, part] of PARTS) {
      const from = partStarts[part]!
      if (from < 0) continue
      const name = NAMES.get(field)!
      if (!isSpecial(part)) to.text(name, b, from, partEnds[part]!)
      else to.value(name, this.value(b, from, partEnds[part]!, field, receivedAt))
    }
    return true
  }

  override value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown {
    const text = b.toString('utf8', start, end)
    if (name === 'timestamp') return classicTime(text, receivedAt)
    return name === 'structured_data' ? structuredData(text) : fieldOfPriority(Number(text), name)
  }
}

export const syslog = defineCodec({
  name: 'syslog',
  summary: 'Each line is a syslog message: RFC 5424, RFC 3164, or the file format of a syslog daemon.',
  notes:
    'A line is a syslog message if it begins with a priority or a timestamp. Events have `.message`, `.timestamp`, `.host`, `.app`, ' +
    '`.pid`, `.msgid`, `.facility` and `.severity` (both by name), `.severity_code` (0 to 7) and `.structured_data`, as far as the ' +
    'message has them. A timestamp without a year is read as local time, in the year that brings it nearest to the present.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a syslog message',
  undecodedHelp: 'Lines that are not syslog messages. They are kept as text.',
  joinsLines: true,
  decodesFirstPiece: true,
  mayBeCounted: true,
  hostIsSender: true,
  examples: [
    {
      title: 'A message in the format of RFC 5424',
      yaml: '',
      line: '<165>1 2026-01-31T12:00:00Z web-07 nginx 812 - [meta@1 zone="eu"] upstream timed out',
      event: {
        message: 'upstream timed out',
        timestamp: '2026-01-31T12:00:00Z',
        host: 'web-07',
        app: 'nginx',
        pid: '812',
        facility: 'local4',
        severity: 'notice',
        severity_code: 5,
        structured_data: { 'meta@1': { zone: 'eu' } },
      },
    },
  ],
  create: () => new Syslog(),
})
