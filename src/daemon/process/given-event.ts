import { hostname } from 'node:os'
import type { Codec } from '../../core/codec.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import { Ack } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import type { Fields } from '../../core/event/event-fields.js'
import { type EventFields, fieldsOfLines } from '../../core/event/event-fields.js'
import { DECODED } from '../../core/event/flags.js'
import type { Origin } from '../../core/event/origin.js'
import { type SplitOptions, Splitting } from '../../core/options/multiline-options.js'
import type { ComponentConfig } from '../../engine/config/load.js'
import { frameOf, originOf } from '../../engine/run/dead-letter/letters.js'
import { decodeLetter, type Letter } from '../../engine/run/dead-letter/record.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { jsonText } from '../../lib/formats/json-text.js'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { systemClock } from '../../lib/time.js'
import { UsageError } from './command-line.js'

export interface ReadEvent {
  readonly batch: EventBatch
  /** The event's fields, without the fields that depend on when and where the event is read. */
  readonly own: Fields
  /** How the bytes were read, in words for the user. */
  readonly as: string
  /** A field, such as `.file`, that the source would set. Its value is unknown here. */
  readonly unset?: string | undefined
  /** Number of further events in the input. */
  readonly more: number
}

const MOST_LINE_BYTES = 64 * 1024 * 1024
/** By type of source: the field that the source sets on events from text lines. */
const SET_BY_SOURCE = new Map([
  ['file', '.file'],
  ['tcp', '.peer'],
  ['http', '.peer'],
])
/** Fields that name the origin of a line. */
const OF_ORIGIN = ['file', 'peer']

/** Options for reading JSON objects. The options of a source override these options. */
export const AS_OBJECTS: SplitOptions = {
  decode: JSON_OBJECTS,
  max_line_bytes: MOST_LINE_BYTES,
  partial_line_timeout: 0,
}

/** Reads the first event of `bytes`. */
export async function readEvent(
  source: ComponentConfig<'source'>,
  bytes: Buffer,
  wanted: WantedNames,
): Promise<ReadEvent> {
  const host = hostname()
  const made = (await source.definition.explains?.())?.linesOf?.(source.options, bytes, host)
  const options = { ...AS_OBJECTS, ...(source.options as Partial<SplitOptions>) }
  if (options.decode.form !== 'object') {
    const tapped = readTapped(source.id, options.decode, framesOf(AS_OBJECTS, bytes), wanted)
    if (tapped) return tapped
  }
  const frames = framesOf(options, made?.lines ?? bytes)
  const origin = { source: source.id, host, codec: options.decode, wanted }
  const batch = firstOf(frames, origin)
  const elsewhere = firstOf(frames, { ...origin, host: '' }, 0).fields(0)
  const own = Object.entries(batch.fields(0)).filter(([name, value]) => jsonText(elsewhere[name]) === jsonText(value))
  const unset = batch.isObject(0) ? undefined : SET_BY_SOURCE.get(source.definition.type)
  return { batch, own: Object.fromEntries(own), as: made?.of ?? readAs(batch), unset, more: eventsAfterFirst(frames) }
}

/** Whether the first line is an event in the format of `sluice tap`. Call only for sources that do not read JSON. */
export function isTapped(source: string, codec: Codec, lines: Buffer): boolean {
  const end = lines.indexOf('\n')
  const line = end < 0 ? lines : lines.subarray(0, end)
  return line.length > 0 && readTapped(source, codec, framesOf(AS_OBJECTS, line), new WantedNames()) !== undefined
}

/**
 * Reads an event that `sluice tap` printed, if the original line of the event was not JSON. Returns undefined for other
 * inputs.
 */
function readTapped(source: string, codec: Codec, frames: Frame[], wanted: WantedNames): ReadEvent | undefined {
  const { chunk, starts, ends } = frames[0]!
  const given = tappedFields(chunk.subarray(starts[0], ends[0]))
  if (!given) return undefined
  const more = eventsAfterFirst(frames)
  if (codec.form === 'fields') {
    const hasMessage = typeof given.message === 'string' || !codec.eventFields?.names.includes('message')
    if (!hasMessage || !canHave(fieldsOfLines(codec, OF_ORIGIN), Object.keys(given))) return undefined
    const batch = firstOf(frames, { source, host: '', codec: JSON_OBJECTS, wanted })
    return { batch, own: given, as: 'an event as sluice tap shows it, without its line', more }
  }
  const letter = lineOf(given)
  if (letter?.codec.form !== 'message') return undefined
  const batch = firstOf([frameOf(letter)], originOf(letter, source, wanted), letter.receivedAt)
  // If decoding this line gives all fields of the input, `sluice tap` printed the input. Otherwise the input is a line
  // to read.
  const fields = batch.fields(0)
  const same = Object.entries(given).every(([name, value]) => fields[name] === value)
  return same ? { batch, own: given, as: 'the text of an event as sluice tap shows it', more } : undefined
}

/** Whether events with these fields can have all of `names`. */
function canHave(fields: EventFields | undefined, names: readonly string[]): boolean {
  return fields === undefined || names.every(name => fields.names.includes(name) || fields.others?.test(name))
}

/** The fields of a tapped event. Undefined if the input is not JSON, or if no field names the origin of a line. */
function tappedFields(json: Buffer): Record<string, unknown> | undefined {
  if (json[0] !== 0x7b) return undefined
  try {
    const fields = JSON.parse(json.toString()) as Record<string, unknown>
    const hasOrigin = 'file' in fields || 'peer' in fields || ('host' in fields && 'timestamp' in fields)
    return hasOrigin ? fields : undefined
  } catch {
    return undefined
  }
}

/** Restores the original line of a tapped event, in the same way as for an event in a dead-letter queue. */
function lineOf(given: Record<string, unknown>): Letter | undefined {
  const event = { host: hostname(), timestamp: new Date(systemClock.wall()).toISOString(), ...given }
  const record = Buffer.from(jsonText({ reason: '', line: 'raw' in given ? 'raw' : 'message', event }))
  return decodeLetter(record, 0, record.length)
}

function framesOf(options: SplitOptions, bytes: Buffer): Frame[] {
  const splitter = new Splitting(options).lineSplitter()
  const frames = [splitter.push(bytes), splitter.flush()].filter(frame => frame !== undefined)
  if (frames.length === 0) throw new UsageError('the input is empty; give one event', 'explain')
  return frames
}

function eventsAfterFirst(frames: readonly Frame[]): number {
  return frames.reduce((sum, { length }) => sum + length, -1)
}

function firstOf([frame]: readonly Frame[], origin: Origin, receivedAt = systemClock.wall()): EventBatch {
  const batch = new EventBatch({ ...frame!, length: 1 }, origin, receivedAt, new Ack(() => {}))
  batch.bytes = batch.size(0)
  batch.scan()
  return batch
}

function readAs(batch: EventBatch): string {
  const { form, expects } = batch.origin.codec.definition
  return form === 'message' || batch.look(0) & DECODED ? expects : `text, because it is not ${expects}`
}
