/** A name of a field: a constant, or one that is found in each line and moved with `at`. UTF-8. */
export class FieldName {
  bytes: Buffer
  start = 0
  end: number
  /** The name and a colon in JSON; undefined for a name that is found in lines. */
  readonly json: Buffer | undefined

  constructor(text?: string) {
    this.bytes = Buffer.from(text ?? '')
    this.end = this.bytes.length
    this.json = text === undefined ? undefined : Buffer.from(`${JSON.stringify(text)}:`)
  }

  /** Moves a name that is found in lines. */
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

/** Makes values of ranges of a line that are no text as they are: a codec. */
export interface ValueMaker {
  value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown
}

/**
 * Receives the fields of one line in order. If a name occurs twice, the last value counts. Names and bytes are only
 * valid during the call. A codec that gives constant names gives each of them once.
 */
export interface FieldSink {
  /** The value is the UTF-8 text [start, end). */
  text(name: FieldName, b: Buffer, start: number, end: number): void
  /** The value is the text that [start, end) is between the quotes of a JSON string. */
  string(name: FieldName, b: Buffer, start: number, end: number, hasEscapes: boolean): void
  /** The value is [start, end), which is valid JSON. */
  json(name: FieldName, b: Buffer, start: number, end: number): void
  /** The value is what `maker` makes of [start, end). */
  made(name: FieldName, maker: ValueMaker, b: Buffer, start: number, end: number): void
  /** Any value that can be written as JSON. */
  value(name: FieldName, value: unknown): void
}
