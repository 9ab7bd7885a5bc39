import type { Codec } from '../../../core/codec.js'
import { eventText } from '../../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../core/codecs/json.js'
import { codecOf } from '../../../core/codecs/loaded.js'
import { TEXT_LINES } from '../../../core/codecs/text.js'
import type { DeliveryError } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { partialMark } from '../../../core/event/event.js'
import { DECODED, INVALID, MODIFIED } from '../../../core/event/flags.js'
import { SLOT, scanObject, WantedNames } from '../../../lib/formats/json-scan.js'
import { CONTINUES, PIECE } from '../../../lib/lines/line-splitter.js'

/**
 * A rejected event as a line of JSON with `time`, `since` (when it was first rejected, if earlier), `destination`,
 * `status` (if any), `reason`, `request_id` (if any), `error` and `event`: the event as it is sent with
 * `encoding: json`. If another line is sent with `encoding: raw`, the member `line` describes that other line:
 * - "message" or "raw": the line is the event's member of this name, as text or in base64. The codec is json or text.
 * - {"syslog": the text, "options": the codec's options, if any}: a line for the codec of this name.
 * - {"raw": "syslog", "options"}: also a line for the codec of this name, but not valid UTF-8. Its bytes are the
 *   event's member `raw`.
 * If the line is a piece, the object forms also have "partial", because the `partial` of the event may be a field of
 * the line. For all pieces except the last, the object forms also have "host", the host of the origin.
 */

export function encodeLetters(
  request: readonly EventBatch[],
  error: DeliveryError,
  { destination, wall }: { destination: string; wall: number },
): Buffer {
  const { status, reason, requestId: request_id, message, messages } = error
  const time = new Date(wall).toISOString()
  const lines: Buffer[] = []
  for (const batch of request) {
    const { rejectedAt } = batch.origin
    const since = rejectedAt === undefined ? undefined : new Date(rejectedAt).toISOString()
    const head = JSON.stringify({ time, since, destination, status, reason, request_id }).slice(0, -1)
    for (let i = 0; i < batch.length; i++) {
      const line = lineMember(batch, i)
      const member = line === undefined ? '' : `,"line":${JSON.stringify(line)}`
      const event = eventText(JSON_OBJECTS, batch, i)
      const said = JSON.stringify(messages?.[lines.length] ?? message)
      lines.push(Buffer.from(`${head},"error":${said}${member},"event":${event}}\n`))
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
    // Pieces of a line are matched by the origin's host, so it is saved here. The event may have a host from its line.
    const more = {
      ...(Object.keys(options).length > 0 && { options }),
      ...(flags & (PIECE | CONTINUES) && { partial: partialMark(flags) }),
      ...(flags & PIECE && { host }),
    }
    return flags & INVALID ? { raw: name, ...more } : { [name]: batch.line(i).toString(), ...more }
  }
  if (flags & INVALID) return 'raw'
  return flags & DECODED ? undefined : 'message'
}

/** The data needed to resend an event: its line, and the fields that are not in the line. */
export interface Letter {
  readonly reason: string
  readonly line: Buffer
  /** Flags of the line, see lib/lines/line-splitter.ts. */
  readonly flags: number
  readonly codec: Codec
  readonly path: string | undefined
  readonly peer: string | undefined
  readonly host: string
  /** When the event was received, wall clock in milliseconds. */
  readonly receivedAt: number
  /** When the event was first rejected, wall clock in milliseconds. */
  readonly rejectedAt: number | undefined
}

const wanted = new WantedNames()
const EVENT = wanted.slot('event')
const slots = new Int32Array(SLOT)

export interface LetterRecord {
  readonly time?: unknown
  readonly since?: unknown
  readonly reason: string
  readonly error?: unknown
  readonly line?: Line
  readonly event: Record<string, unknown>
}

/** Parses the record in the line [start, end) of `bytes`; undefined if it is not a rejected event. */
export function decodeLetter(bytes: Buffer, start: number, end: number): Letter | undefined {
  if (!scanObject(bytes, start, end, wanted, slots, 0)) return undefined
  const record = JSON.parse(bytes.toString('utf8', start, end)) as LetterRecord
  let from = slots[EVENT * SLOT]!
  let to = slots[EVENT * SLOT + 1]! >> 1
  // The line includes white space around the object.
  while (isSpace(bytes[from - 1]!)) from--
  while (isSpace(bytes[to]!)) to++
  const { reason, line, event, time, since = time } = record
  if (typeof reason !== 'string' || typeof event !== 'object' || event === null || Array.isArray(event))
    return undefined
  const { file, peer, host, timestamp, partial } = event
  const found = lineOf(line, event)
  if (found === undefined) return undefined
  const isObject = found.codec.form === 'object'
  const receivedAt = Date.parse(String(timestamp))
  const rejectedAt = Date.parse(String(since))
  return {
    reason,
    line: found.bytes ?? Buffer.from(bytes.subarray(from, to)),
    flags: isObject ? 1 : flagsOf(found.partial ?? (hasOwnPartial(found.codec) ? undefined : partial)),
    codec: found.codec,
    path: typeof file === 'string' && !isObject ? file : undefined,
    peer: typeof peer === 'string' && !isObject ? peer : undefined,
    host: found.host ?? (typeof host === 'string' ? host : ''),
    receivedAt: Number.isNaN(receivedAt) ? 0 : receivedAt,
    rejectedAt: Number.isNaN(rejectedAt) ? undefined : rejectedAt,
  }
}

interface Found {
  readonly bytes?: Buffer
  readonly codec: Codec
  /** The origin's host, if it is not the event's host. */
  readonly host?: string
  /** Which piece of a line the event is, if the event itself does not say that. */
  readonly partial?: unknown
}

/** Whether the field `partial` of an event may come from its line. */
function hasOwnPartial({ form, eventFields }: Codec): boolean {
  return form === 'fields' && (eventFields === undefined || eventFields.names.includes('partial'))
}

/** The bytes of the line, and its codec. Without bytes, the line is the event's JSON. */
function lineOf(line: unknown, event: Record<string, unknown>): Found | undefined {
  const { message, raw } = event
  if (line === undefined) return { codec: JSON_OBJECTS }
  if (line === 'message')
    return typeof message === 'string' ? { bytes: Buffer.from(message), codec: TEXT_LINES } : undefined
  const base64 = typeof raw === 'string' ? Buffer.from(raw, 'base64') : undefined
  if (line === 'raw')
    return base64 && { bytes: base64, codec: message === base64.toString() ? TEXT_LINES : JSON_OBJECTS }
  if (typeof line !== 'object' || line === null) return undefined
  const { options, host, partial, ...named } = line as Record<string, unknown>
  const [[name, text] = []] = Object.entries(named)
  const isRaw = name === 'raw'
  const codec = codecOf(String(isRaw ? text : name), options)
  const bytes = isRaw ? base64 : typeof text === 'string' ? Buffer.from(text) : undefined
  return codec && bytes && { bytes, codec, partial, ...(typeof host === 'string' && { host }) }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d
}

function flagsOf(partial: unknown): number {
  if (partial === 'first') return PIECE
  if (partial === 'middle') return PIECE | CONTINUES
  return partial === 'last' ? CONTINUES | 1 : 1
}
