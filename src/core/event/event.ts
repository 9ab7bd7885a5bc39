import { CONTINUES, PIECE } from '../../lib/lines/line-splitter.js'
import { DECODED, INVALID } from './flags.js'
import type { Origin } from './origin.js'

export type Fields = Record<string, unknown>

/**
 * A log record as an object: the byte range of its line, and its fields, decoded on first access. Created only on
 * demand; the hot path works on the columns of EventBatch.
 */
export class LogEvent {
  readonly origin: Origin
  /** Wall clock, in milliseconds. */
  readonly receivedAt: number
  readonly flags: number
  #chunk: Buffer
  #start: number
  #end: number
  #fields: Fields | undefined
  /** Its JSON, if it was changed to one. */
  #json: Buffer | undefined
  #modified = false

  constructor(origin: Origin, receivedAt: number, flags: number, chunk: Buffer, start: number, end: number) {
    this.origin = origin
    this.receivedAt = receivedAt
    this.flags = flags
    this.#chunk = chunk
    this.#start = start
    this.#end = end
  }

  /** The line as read, without its line end. */
  get line(): Buffer {
    return this.#chunk.subarray(this.#start, this.#end)
  }

  /** If false, destinations may copy the bytes of the line. */
  get modified(): boolean {
    return this.#modified
  }

  /** Read-only; change them with `EventBatch.modify`. */
  get fields(): Fields {
    this.#fields ??= this.#json
      ? (JSON.parse(this.#json.toString()) as Fields)
      : lineFields(this.origin, this.receivedAt, this.flags, this.#chunk, this.#start, this.#end)
    return this.#fields
  }

  /** Sets the fields to those of a JSON object. */
  set json(json: Buffer) {
    this.#json = json
    this.#fields = undefined
    this.#modified = true
  }

  set fields(fields: Fields) {
    this.#fields = fields
    this.#modified = true
  }

  /** A copy whose fields can be replaced independently. */
  clone(): LogEvent {
    const copy = new LogEvent(this.origin, this.receivedAt, this.flags, this.#chunk, this.#start, this.#end)
    copy.#fields = this.#fields
    copy.#json = this.#json
    copy.#modified = this.#modified
    return copy
  }

  /** Updates the position after the bytes of the line moved to `start` of `chunk`. */
  move(chunk: Buffer, start: number): void {
    this.#end = start + this.#end - this.#start
    this.#start = start
    this.#chunk = chunk
  }
}

/** Decodes the fields of the line [start, end). `flags` are those after the scan. */
export function lineFields(
  origin: Origin,
  receivedAt: number,
  flags: number,
  chunk: Buffer,
  start: number,
  end: number,
): Fields {
  const { codec } = origin
  const fields: Fields =
    flags & DECODED ? codec.fields(chunk, start, end, receivedAt) : { message: chunk.toString('utf8', start, end) }
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

/** The fields that come from where and when a line was read, in the order in which they are added. */
export const ORIGIN_FIELDS = ['file', 'peer', 'host', 'timestamp', 'partial']

/** The value of a field that comes from where and when the line was read. */
export function originField(origin: Origin, receivedAt: number, flags: number, name: string): string | undefined {
  switch (name) {
    case 'file':
      return origin.path
    case 'peer':
      return origin.peer
    case 'host':
      // A sender without a name is identified by its address.
      return (flags & DECODED && origin.codec.definition.hostIsSender ? origin.peer : undefined) ?? origin.host
    case 'timestamp':
      return new Date(receivedAt).toISOString()
    case 'partial':
      return partialMark(flags)
    default:
      return undefined
  }
}

/** Which piece of a line an event is; undefined for a whole line. */
export function partialMark(flags: number): 'first' | 'middle' | 'last' | undefined {
  if (flags & PIECE) return flags & CONTINUES ? 'middle' : 'first'
  return flags & CONTINUES ? 'last' : undefined
}

/** Sets an own property, even one named `__proto__`. */
function setOwn(fields: Fields, name: string, value: unknown): void {
  Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true })
}
