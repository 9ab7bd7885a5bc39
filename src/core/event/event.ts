import { exactJson } from '../../lib/formats/normal-json.js'
import { CONTINUES, PIECE } from '../../lib/lines/line-splitter.js'
import type { Fields } from './event-fields.js'
import { DECODED, INVALID } from './flags.js'
import type { Origin } from './origin.js'

/** Returns the JSON of an event created by a component. Throws if the fields are not a JSON object. */
export function madeJson(fields: Fields): string {
  const json: string | undefined = exactJson(fields)
  if (json?.[0] !== '{') throw new TypeError('an event must be an object')
  return json
}

/** Decodes the fields of the line [start, end). `flags`: the flags of the line after its scan. */
export function lineFields(
  origin: Origin,
  receivedAt: number,
  flags: number,
  chunk: Buffer,
  start: number,
  end: number,
  isExact = false,
): Fields {
  const { codec } = origin
  const fields: Fields =
    flags & DECODED
      ? codec.fields(chunk, start, end, receivedAt, isExact)
      : { message: chunk.toString('utf8', start, end) }
  if (!(flags & DECODED && codec.form === 'object')) {
    for (const name of ORIGIN_FIELDS) {
      if (Object.hasOwn(fields, name)) continue
      const value = originField(origin, receivedAt, flags, name)
      if (value !== undefined) fields[name] = value
    }
  }
  if (flags & INVALID) setOwn(fields, 'raw', chunk.toString('base64', start, end))
  return fields
}

/** Fields that say where and when a line was read, in the order in which they are added to the event. */
export const ORIGIN_FIELDS = ['file', 'peer', 'host', 'timestamp', 'partial']

/** Returns the value of one of ORIGIN_FIELDS; undefined: the event does not have this field. */
export function originField(origin: Origin, receivedAt: number, flags: number, name: string): string | undefined {
  switch (name) {
    case 'file':
      return origin.path
    case 'peer':
      return origin.peer
    case 'host':
      // A decoded line that does not name a host gets the address of its sender.
      return (flags & DECODED && origin.codec.definition.hostIsSender ? origin.peer : undefined) ?? origin.host
    case 'timestamp':
      return receivedText(receivedAt)
    case 'partial':
      return partialMark(flags)
    default:
      return undefined
  }
}

let lastReceived = Number.NaN
let lastText = ''

/** Caches the text, because all events of a batch have the same time. */
function receivedText(receivedAt: number): string {
  if (receivedAt !== lastReceived) {
    lastReceived = receivedAt
    lastText = new Date(receivedAt).toISOString()
  }
  return lastText
}

/** Returns whether a piece of a line is first, middle or last; undefined for a whole line. */
export function partialMark(flags: number): 'first' | 'middle' | 'last' | undefined {
  if (flags & PIECE) return flags & CONTINUES ? 'middle' : 'first'
  return flags & CONTINUES ? 'last' : undefined
}

/** Sets an own property, even one named `__proto__`. */
function setOwn(fields: Fields, name: string, value: unknown): void {
  Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true })
}
