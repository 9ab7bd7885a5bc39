/** A field name in UTF-8: a constant, or the range that `at` sets for each line. */
export class FieldName {
  bytes: Buffer
  start = 0
  end: number
  /** The name in JSON with a colon, for a constant name; undefined for a name that `at` sets. */
  readonly json: Buffer | undefined

  constructor(text?: string) {
    this.bytes = Buffer.from(text ?? '')
    this.end = this.bytes.length
    this.json = text === undefined ? undefined : Buffer.from(`${JSON.stringify(text)}:`)
  }

  at(b: Buffer, start: number, end: number): this {
    this.bytes = b
    this.start = start
    this.end = end
    return this
  }

  toString(): string {
    return this.bytes.toString('utf8', this.start, this.end)
  }
}

/** Codecs implement this to convert the bytes of a field, if its value is not simply the bytes as text. */
export interface ValueMaker {
  value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown
}

/**
 * Receives the fields of one line in order. If a name occurs twice, the last value counts. Names and bytes are only
 * valid during the call. A codec passes each constant name at most once per line.
 */
export interface FieldSink {
  /** The value is the UTF-8 text [start, end). */
  text(name: FieldName, b: Buffer, start: number, end: number): void
  /** The value is the JSON string with the content [start, end) between its quotes. */
  string(name: FieldName, b: Buffer, start: number, end: number, hasEscapes: boolean): void
  /** The value is [start, end), which is valid JSON. */
  json(name: FieldName, b: Buffer, start: number, end: number): void
  /** `maker` makes the value from [start, end). */
  made(name: FieldName, maker: ValueMaker, b: Buffer, start: number, end: number): void
  /** Any value that can be written as JSON. */
  value(name: FieldName, value: unknown): void
}
