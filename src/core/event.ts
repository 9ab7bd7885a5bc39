import { CONTINUES, PIECE } from '../lib/line-splitter.js'
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
    this.#fields ??= this.flags & OBJECT ? this.#parse() : this.#text()
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

  #text(): Fields {
    const fields: Fields = { message: this.line.toString() }
    if (this.origin.path !== undefined) fields.file = this.origin.path
    fields.host = this.origin.host
    fields.timestamp = new Date(this.receivedAt).toISOString()
    const partial = partialMark(this.flags)
    if (partial) fields.partial = partial
    if (this.flags & INVALID) fields.raw = this.line.toString('base64')
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

/** Which piece of a line an event is, when it is not a whole one. */
export function partialMark(flags: number): 'first' | 'middle' | 'last' | undefined {
  if (flags & PIECE) return flags & CONTINUES ? 'middle' : 'first'
  return flags & CONTINUES ? 'last' : undefined
}

/** Sets an own member, also one named `__proto__`. */
function setOwn(fields: Fields, name: string, value: unknown): void {
  Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true })
}
