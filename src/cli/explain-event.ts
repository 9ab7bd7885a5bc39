import { hostname } from 'node:os'
import type { ComponentConfig } from '../config/load.js'
import { Ack } from '../core/ack.js'
import { EventBatch } from '../core/batch.js'
import { OBJECT } from '../core/flags.js'
import { type SplitOptions, Splitting } from '../core/multiline-options.js'
import type { Decode, Origin } from '../core/origin.js'
import { frameOf, originOf } from '../engine/dead-letter/letters.js'
import { decodeLetter, type Letter } from '../engine/dead-letter/record.js'
import { WantedNames } from '../lib/json-scan.js'
import type { Frame } from '../lib/line-splitter.js'
import { systemClock } from '../lib/time.js'
import { UsageError } from './command-line.js'

/** One event as the source would give it. */
export interface ReadEvent {
  readonly batch: EventBatch
  /** How it was read, in words. */
  readonly as: string
  /** A field that the source sets on such an event, which is not known here: `.file`. */
  readonly unset?: string | undefined
  /** How many come behind it. */
  readonly more: number
}

const MOST_LINE_BYTES = 64 * 1024 * 1024
/** By the types of sources: what they set on events of lines. */
const SET_BY_SOURCE = new Map([
  ['file', '.file'],
  ['tcp', '.peer'],
  ['http', '.peer'],
])
/** What an event of a line of syslog can have. */
const SYSLOG_FIELDS = new Set(
  'message timestamp host app pid msgid facility severity severity_code structured_data file peer partial raw'.split(
    ' ',
  ),
)

/** How objects of JSON are read, of sources too that are not asked how to read a line. */
export const AS_OBJECTS: SplitOptions = { decode: 'json', max_line_bytes: MOST_LINE_BYTES, partial_line_timeout: 0 }

/** The first event of `bytes`. */
export function readEvent(source: ComponentConfig<'source'>, bytes: Buffer, wanted: WantedNames): ReadEvent {
  const host = hostname()
  const made = source.definition.linesOf?.(source.options, bytes, host)
  const options = { ...AS_OBJECTS, ...(source.options as Partial<SplitOptions>) }
  if (options.decode !== 'json') {
    const tapped = readTapped(source.id, options.decode, framesOf(AS_OBJECTS, bytes), wanted)
    if (tapped) return tapped
  }
  const frames = framesOf(options, made?.lines ?? bytes)
  const batch = firstOf(frames, { source: source.id, host, decode: options.decode, wanted })
  const unset = batch.flags[0]! & OBJECT ? undefined : SET_BY_SOURCE.get(source.definition.type)
  return { batch, as: made?.of ?? readAs(batch), unset, more: behind(frames) }
}

/** Whether the first of the lines is an event as `sluice tap` shows those of a source that does not read JSON. */
export function isTapped(source: string, decode: Decode, lines: Buffer): boolean {
  const end = lines.indexOf('\n')
  const line = end < 0 ? lines : lines.subarray(0, end)
  return line.length > 0 && readTapped(source, decode, framesOf(AS_OBJECTS, line), new WantedNames()) !== undefined
}

/** An event of lines that are not JSON, when it is given as `sluice tap` shows it. */
function readTapped(source: string, decode: Decode, frames: Frame[], wanted: WantedNames): ReadEvent | undefined {
  const { chunk, starts, ends } = frames[0]!
  const given = tappedFields(chunk.subarray(starts[0], ends[0]))
  if (!given) return undefined
  const more = behind(frames)
  if (decode === 'syslog') {
    if (!Object.keys(given).every(name => SYSLOG_FIELDS.has(name))) return undefined
    const batch = firstOf(frames, { source, host: '', decode: 'json', wanted })
    return { batch, as: 'an event as sluice tap shows it, whose line is not known', more }
  }
  const letter = lineOf(given)
  if (letter?.decode !== 'text') return undefined
  const batch = firstOf([frameOf(letter)], originOf(letter, source, wanted), letter.receivedAt)
  // The line has to make the same event again: with more in it what is given is a line that is JSON itself.
  const fields = batch.fields(0)
  const same = Object.entries(given).every(([name, value]) => fields[name] === value)
  return same ? { batch, as: 'the text of an event as sluice tap shows it', more } : undefined
}

/** Undefined when it says nothing of where a line came from, as the events of lines do. */
function tappedFields(json: Buffer): Record<string, unknown> | undefined {
  if (json[0] !== 0x7b) return undefined
  try {
    const fields = JSON.parse(json.toString()) as Record<string, unknown>
    const tells = 'file' in fields || 'peer' in fields || ('host' in fields && 'timestamp' in fields)
    return tells && typeof fields.message === 'string' ? fields : undefined
  } catch {
    return undefined
  }
}

/** The line that a text's event was made of, as of a dead letter with it. */
function lineOf(given: Record<string, unknown>): Letter | undefined {
  const event = { host: hostname(), timestamp: new Date(systemClock.wall()).toISOString(), ...given }
  const record = Buffer.from(JSON.stringify({ reason: '', line: 'raw' in given ? 'raw' : 'message', event }))
  return decodeLetter(record, 0, record.length)
}

function framesOf(options: SplitOptions, bytes: Buffer): Frame[] {
  const splitter = new Splitting(options).splitter()
  const frames = [splitter.push(bytes), splitter.flush()].filter(frame => frame !== undefined)
  if (frames.length === 0) throw new UsageError('there is no event: it is empty', 'explain')
  return frames
}

/** How many events come behind the first. */
function behind(frames: readonly Frame[]): number {
  return frames.reduce((sum, { length }) => sum + length, -1)
}

function firstOf([frame]: readonly Frame[], origin: Origin, receivedAt = systemClock.wall()): EventBatch {
  const batch = new EventBatch({ ...frame!, length: 1 }, origin, receivedAt, new Ack(() => {}))
  batch.bytes = batch.size(0)
  batch.scan()
  return batch
}

function readAs(batch: EventBatch): string {
  const { decode } = batch.origin
  if (decode === 'text') return 'text'
  const fits = decode === 'json' ? (batch.look(0) & OBJECT) !== 0 : batch.isSyslog(0)
  if (fits) return decode === 'json' ? 'an object of JSON' : 'a syslog message'
  return `text, since it is not ${decode === 'json' ? 'an object of JSON' : 'a syslog message'}`
}
