import { CONTINUES, PIECE } from '../lib/line-splitter.js'
import { parseSyslog } from '../lib/syslog.js'
import { INVALID, OBJECT } from './flags.js'
import type { Origin } from './origin.js'

export type Fields = Record<string, unknown>

/**
 * One log record as an object: the byte range of its line, and its fields, decoded on first read. Events are only
 * made where somebody needs one; the hot path works on the columns of EventBatch.
 */
export class LogEvent {
  readonly origin: Origin
  /** Wall clock, milliseconds. */
  readonly receivedAt: number
  readonly flags: number
  #chunk: Buffer
  #start: number
  #end: number
  #fields: Fields | undefined
  #modified = false

  constructor(origin: Origin, receivedAt: number, flags: number, chunk: Buffer, start: number, end: number) {
    this.origin = origin
    this.receivedAt = receivedAt
    this.flags = flags
    this.#chunk = chunk
    this.#start = start
    this.#end = end
  }

  /** The line as it was read, without its line end. */
  get line(): Buffer {
    return this.#chunk.subarray(this.#start, this.#end)
  }

  /** False: destinations may copy the line's own bytes. */
  get modified(): boolean {
    return this.#modified
  }

  /** Treat as read-only: `EventBatch.modify` changes them. */
  get fields(): Fields {
    this.#fields ??=
      this.flags & OBJECT
        ? this.#parse()
        : lineFields(this.origin, this.receivedAt, this.flags, this.#chunk, this.#start, this.#end)
    return this.#fields
  }

  set fields(fields: Fields) {
    this.#fields = fields
    this.#modified = true
  }

  #parse(): Fields {
    const fields = JSON.parse(this.line.toString()) as Fields
    if (this.flags & INVALID) setOwn(fields, 'raw', this.line.toString('base64'))
    return fields
  }

  /** A copy whose fields may be replaced without this one seeing it. */
  clone(): LogEvent {
    const copy = new LogEvent(this.origin, this.receivedAt, this.flags, this.#chunk, this.#start, this.#end)
    copy.#fields = this.#fields
    copy.#modified = this.#modified
    return copy
  }

  /** The line's bytes now stand at `start` of `chunk`. */
  move(chunk: Buffer, start: number): void {
    this.#end = start + this.#end - this.#start
    this.#start = start
    this.#chunk = chunk
  }
}

/** The fields of the line [start, end) that is not a JSON object, made anew. */
export function lineFields(
  origin: Origin,
  receivedAt: number,
  flags: number,
  chunk: Buffer,
  start: number,
  end: number,
): Fields {
  const fields: Fields = syslogFields(origin, receivedAt, flags, chunk, start, end) ?? {
    message: chunk.toString('utf8', start, end),
  }
  if (origin.path !== undefined) fields.file = origin.path
  if (origin.peer !== undefined) fields.peer = origin.peer
  fields.host ??= origin.host
  fields.timestamp ??= new Date(receivedAt).toISOString()
  const partial = partialMark(flags)
  if (partial) fields.partial = partial
  if (flags & INVALID) fields.raw = chunk.toString('base64', start, end)
  return fields
}

function syslogFields(
  origin: Origin,
  receivedAt: number,
  flags: number,
  chunk: Buffer,
  start: number,
  end: number,
): Fields | undefined {
  // The rest of a line may look like the beginning of one.
  if (origin.decode !== 'syslog' || flags & CONTINUES) return undefined
  const fields: Fields | undefined = parseSyslog(chunk, start, end, receivedAt)
  // Who sends without a name is known by the address.
  if (fields && origin.peer !== undefined) fields.host ??= origin.peer
  return fields
}

/** Which piece of a line an event is, when it is not a whole one. */
export function partialMark(flags: number): 'first' | 'middle' | 'last' | undefined {
  if (flags & PIECE) return flags & CONTINUES ? 'middle' : 'first'
  return flags & CONTINUES ? 'last' : undefined
}

/** Sets an own member, also one named `__proto__`. */
function setOwn(fields: Fields, name: string, value: unknown): void {
  Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true })
}
