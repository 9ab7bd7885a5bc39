import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'

/** Fields of a log record: their numbers in protobuf, and their names in JSON. */
export const EVENT_TIME = { number: 1, name: 'timeUnixNano' }
export const OBSERVED_TIME = { number: 11, name: 'observedTimeUnixNano' }
export const SEVERITY_NUMBER = { number: 2, name: 'severityNumber' }
export const SEVERITY_TEXT = { number: 3, name: 'severityText' }
export const TRACE_ID = { number: 9, name: 'traceId' }
export const SPAN_ID = { number: 10, name: 'spanId' }

export const DROPPED_ATTRIBUTES = { number: 7, name: 'droppedAttributesCount' }
export const FLAGS = { number: 8, name: 'flags', isFixed: true }
export const EVENT_NAME = { number: 12, name: 'eventName' }

export interface RecordField {
  readonly number: number
  readonly name: string
  /** Whether the number has 32 bits in protobuf, and is not a varint. */
  readonly isFixed?: boolean
}

/** A name, and a value as JSON with a line end. */
export type JsonAttribute = readonly [string, Buffer]

export interface RecordScope {
  readonly name: string
  readonly version: string
  readonly attributes: readonly JsonAttribute[]
}

export interface RecordGroup {
  readonly resource: readonly JsonAttribute[]
  /** Undefined: the records have no scope. */
  readonly scope: RecordScope | undefined
  readonly records: GrowingBytes
}

/** Writes log records of the OpenTelemetry protocol. `close` closes the part that was opened last. */
export interface RecordWriter {
  readonly contentType: string
  to: GrowingBytes
  openRecord(): void
  openBody(): void
  openAttributes(): void
  /** Opens the attribute whose name is the UTF-8 text [start, end). */
  openAttribute(b: Buffer, start: number, end: number): void
  /** Opens an attribute, writes a text as its value, and closes it. */
  textAttribute(name: Buffer, nameStart: number, nameEnd: number, b: Buffer, start: number, end: number): void
  openMap(): void
  openMember(b: Buffer, start: number, end: number): void
  openList(): void
  openItem(): void
  close(): void
  /** Writes a time: whole seconds since the epoch, and the remaining nanoseconds. */
  time(field: RecordField, seconds: number, nanos: number): void
  number(field: RecordField, value: number): void
  word(field: RecordField, text: string): void
  id(field: RecordField, hex: string): void
  /** Write the value of the open body, attribute, member or item: text, bool, integer, double. */
  text(b: Buffer, start: number, end: number): void
  bool(value: boolean): void
  /** `value` has at most 64 bits. */
  integer(value: number | bigint): void
  double(value: number): void
  request(groups: Iterable<RecordGroup>): Buffer[]
}
