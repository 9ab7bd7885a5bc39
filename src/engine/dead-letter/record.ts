import { eventText } from '../../codecs/encode.js'
import { JSON_OBJECTS } from '../../codecs/json.js'
import { codecOf } from '../../codecs/list.js'
import { PLAIN_TEXT } from '../../codecs/text.js'
import type { Codec } from '../../core/codec.js'
import type { DeliveryError } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import { partialMark } from '../../core/event/event.js'
import { DECODED, INVALID, MODIFIED } from '../../core/event/flags.js'
import { SLOT, scanObject, WantedNames } from '../../lib/formats/json-scan.js'
import { CONTINUES, PIECE } from '../../lib/lines/line-splitter.js'

/**
 * A refused event as a line of JSON: time, destination, status (if any), reason, request_id (if any), error, event:
 * the event as it is sent with `encoding: json`. Where that is not the line as it is sent with `encoding: raw`, `line`
 * states the line:
 * - "message", "raw": the event's member of this name is the line, as text or in base64. The codec is json or text.
 * - {"syslog": the text, "options": those of the codec, if any}: a line that the codec of this name reads.
 * - {"raw": "syslog", "options"}: the same, where the line is not UTF-8 and stands in the event's member `raw`.
 * Both also have, where the line is a piece, "partial", since a line may have a field of this name itself; and "host", that
 * of the origin, where the piece is not the last.
 */

/** The lines for the events of a request. */
export function encodeLetters(
  request: readonly EventBatch[],
  error: DeliveryError,
  { destination, wall }: { destination: string; wall: number },
): Buffer {
  const { status, reason, requestId: request_id, message } = error
  const time = new Date(wall).toISOString()
  const head = JSON.stringify({ time, destination, status, reason, request_id, error: message }).slice(0, -1)
  const lines: Buffer[] = []
  for (const batch of request) {
    for (let i = 0; i < batch.length; i++) {
      const line = lineMember(batch, i)
      const member = line === undefined ? '' : `,"line":${JSON.stringify(line)}`
      const event = eventText(JSON_OBJECTS, batch, i)
      lines.push(Buffer.from(`${head}${member},"event":${event}}\n`))
    }
  }
  return Buffer.concat(lines)
}

type Line = 'message' | 'raw' | Readonly<Record<string, unknown>> | undefined

function lineMember(batch: EventBatch, i: number): Line {
  const flags = batch.look(i)
  if (flags & MODIFIED) return undefined
  const { codec, host } = batch.origin
  const { form, name, options } = codec
  if (form === 'fields') {
    // The line's own host hides that of its origin, by which the pieces of a line find each other.
    const more = {
      ...(Object.keys(options).length > 0 && { options }),
      ...(flags & (PIECE | CONTINUES) && { partial: partialMark(flags) }),
      ...(flags & PIECE && { host }),
    }
    return flags & INVALID ? { raw: name, ...more } : { [name]: batch.event(i).line.toString(), ...more }
  }
  if (flags & INVALID) return 'raw'
  return flags & DECODED ? undefined : 'message'
}

/** What it takes to send an event again: its line, and what came to its fields from elsewhere. */
export interface Letter {
  readonly reason: string
  readonly line: Buffer
  /** Of the line, as lib/lines/line-splitter.ts has them. */
  readonly flags: number
  readonly codec: Codec
  readonly path: string | undefined
  readonly peer: string | undefined
  readonly host: string
  /** Wall clock, milliseconds. */
  readonly receivedAt: number
}

const wanted = new WantedNames()
const EVENT = wanted.slot('event')
const slots = new Int32Array(SLOT)

interface LetterRecord {
  readonly reason: string
  readonly line?: Line
  readonly event: Record<string, unknown>
}

/** Reads the record that is the line [start, end) of `bytes`; undefined when it is none. */
export function decodeLetter(bytes: Buffer, start: number, end: number): Letter | undefined {
  if (!scanObject(bytes, start, end, wanted, slots, 0)) return undefined
  const record = JSON.parse(bytes.toString('utf8', start, end)) as LetterRecord
  let from = slots[EVENT * SLOT]!
  let to = slots[EVENT * SLOT + 1]! >> 1
  // White space around an object is a part of its line.
  while (isSpace(bytes[from - 1]!)) from--
  while (isSpace(bytes[to]!)) to++
  const { reason, line, event } = record
  if (typeof reason !== 'string' || typeof event !== 'object' || event === null || Array.isArray(event))
    return undefined
  const { file, peer, host, timestamp, partial } = event
  const found = lineOf(line, event)
  if (found === undefined) return undefined
  const isObject = found.codec.form === 'object'
  const time = Date.parse(String(timestamp))
  return {
    reason,
    line: found.bytes ?? Buffer.from(bytes.subarray(from, to)),
    flags: isObject ? 1 : flagsOf(found.partial ?? (hasOwnPartial(found.codec) ? undefined : partial)),
    codec: found.codec,
    path: typeof file === 'string' && !isObject ? file : undefined,
    peer: typeof peer === 'string' && !isObject ? peer : undefined,
    host: found.host ?? (typeof host === 'string' ? host : ''),
    receivedAt: Number.isNaN(time) ? 0 : time,
  }
}

interface Found {
  readonly bytes?: Buffer
  readonly codec: Codec
  /** Of the origin, where it is not that of the event. */
  readonly host?: string
  /** Which piece of a line it is, where the record says so apart from the event. */
  readonly partial?: unknown
}

/** Whether a field `partial` of an event may be one of its line. */
function hasOwnPartial({ form, eventFields }: Codec): boolean {
  return form === 'fields' && (eventFields === undefined || eventFields.names.includes('partial'))
}

/** The bytes of the line, and what reads them; without bytes the event's own JSON is the line. */
function lineOf(line: unknown, event: Record<string, unknown>): Found | undefined {
  const { message, raw } = event
  if (line === undefined) return { codec: JSON_OBJECTS }
  if (line === 'message')
    return typeof message === 'string' ? { bytes: Buffer.from(message), codec: PLAIN_TEXT } : undefined
  const base64 = typeof raw === 'string' ? Buffer.from(raw, 'base64') : undefined
  if (line === 'raw') return base64 && { bytes: base64, codec: codecOfBytes(base64, event) }
  if (typeof line !== 'object' || line === null) return undefined
  const { options, host, partial, ...named } = line as Record<string, unknown>
  const [[name, text] = []] = Object.entries(named)
  const isRaw = name === 'raw'
  const codec = codecOf(String(isRaw ? text : name), options)
  const bytes = isRaw ? base64 : typeof text === 'string' ? Buffer.from(text) : undefined
  return codec && bytes && { bytes, codec, partial, ...(typeof host === 'string' && { host }) }
}

/** The only codec besides json and text whose lines earlier releases wrote as "raw" alone. */
const FORMERLY_RAW = 'syslog'

/** What read bytes that are not UTF-8: the message is all of them, or they are an object. */
function codecOfBytes(bytes: Buffer, { message }: Record<string, unknown>): Codec {
  if (message === bytes.toString()) return PLAIN_TEXT
  return scanObject(bytes, 0, bytes.length, wanted, slots, 0) ? JSON_OBJECTS : codecOf(FORMERLY_RAW)!
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d
}

function flagsOf(partial: unknown): number {
  if (partial === 'first') return PIECE
  if (partial === 'middle') return PIECE | CONTINUES
  return partial === 'last' ? CONTINUES | 1 : 1
}
