import { encodeNdjson } from '../../codec/encode.js'
import type { EventBatch } from '../../core/batch.js'
import type { DeliveryError } from '../../core/errors.js'
import { INVALID, MODIFIED, OBJECT } from '../../core/flags.js'
import type { Decode } from '../../core/origin.js'
import { SLOT, scanObject, WantedNames } from '../../lib/json-scan.js'
import { CONTINUES, PIECE } from '../../lib/line-splitter.js'

/**
 * A refused event as a line of JSON: time, destination, status (if any), reason, request_id (if any), error, event:
 * the event as it is sent with `encoding: json`. Where that is not the line as it is sent with `encoding: raw`, `line`
 * tells what is: the name of the event's member that holds it ("message": the text, "raw": base64), or, of a line of
 * syslog, {"syslog": the text}.
 */

const LF = 0x0a

/** The lines for the events of a request. */
export function encodeLetters(
  request: readonly EventBatch[],
  error: DeliveryError,
  { destination, wall }: { destination: string; wall: number },
): Buffer {
  const { status, reason, requestId: request_id, message } = error
  const time = new Date(wall).toISOString()
  const head = JSON.stringify({ time, destination, status, reason, request_id, error: message })
  const start = Buffer.from(head.slice(0, -1))
  const parts: Buffer[] = []
  for (const batch of request) {
    const encoded = encodeNdjson([batch])
    const lines = Buffer.concat(encoded.parts, encoded.bytes)
    let from = 0
    for (let i = 0; i < batch.length; i++) {
      const end = lines.indexOf(LF, from)
      const line = lineMember(batch, i)
      const middle = line === undefined ? ',"event":' : `,"line":${JSON.stringify(line)},"event":`
      parts.push(start, Buffer.from(middle), lines.subarray(from, end), Buffer.from('}\n'))
      from = end + 1
    }
  }
  return Buffer.concat(parts)
}

type Line = 'message' | 'raw' | { readonly syslog: string } | undefined

function lineMember(batch: EventBatch, i: number): Line {
  const flags = batch.look(i)
  if (flags & MODIFIED) return undefined
  if (flags & INVALID) return 'raw'
  if (flags & OBJECT) return undefined
  return batch.origin.decode === 'syslog' ? { syslog: batch.event(i).line.toString() } : 'message'
}

/** What it takes to send an event again: its line, and what came to its fields from elsewhere. */
export interface Letter {
  readonly reason: string
  readonly line: Buffer
  /** Of the line, as lib/line-splitter.ts has them. */
  readonly flags: number
  readonly decode: Decode
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
  const time = Date.parse(String(timestamp))
  return {
    reason,
    line: found.bytes ?? Buffer.from(bytes.subarray(from, to)),
    flags: found.decode === 'json' ? 1 : flagsOf(partial),
    decode: found.decode,
    path: typeof file === 'string' && found.decode !== 'json' ? file : undefined,
    peer: typeof peer === 'string' && found.decode !== 'json' ? peer : undefined,
    host: typeof host === 'string' ? host : '',
    receivedAt: Number.isNaN(time) ? 0 : time,
  }
}

/** The bytes of the line, and what they are; without bytes the event's own JSON is the line. */
function lineOf(line: unknown, event: Record<string, unknown>): { bytes?: Buffer; decode: Decode } | undefined {
  const { message, raw } = event
  if (line === undefined) return { decode: 'json' }
  if (line === 'message')
    return typeof message === 'string' ? { bytes: Buffer.from(message), decode: 'text' } : undefined
  if (line === 'raw' && typeof raw === 'string') {
    const bytes = Buffer.from(raw, 'base64')
    return { bytes, decode: decodeOf(bytes, event) }
  }
  const { syslog } = (typeof line === 'object' && line !== null ? line : {}) as { syslog?: unknown }
  return typeof syslog === 'string' ? { bytes: Buffer.from(syslog), decode: 'syslog' } : undefined
}

/** What bytes that are no text were read as: a message that is all of them, an object, or else a line of syslog. */
function decodeOf(bytes: Buffer, { message }: Record<string, unknown>): Decode {
  if (message === bytes.toString()) return 'text'
  return scanObject(bytes, 0, bytes.length, wanted, slots, 0) ? 'json' : 'syslog'
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d
}

function flagsOf(partial: unknown): number {
  if (partial === 'first') return PIECE
  if (partial === 'middle') return PIECE | CONTINUES
  return partial === 'last' ? CONTINUES | 1 : 1
}
