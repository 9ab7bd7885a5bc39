import { LF, OPEN_OBJECT } from '../../lib/formats/ascii.js'
import type { FieldSink } from '../../lib/formats/field-sink.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { skipSpace } from '../../lib/formats/json-scan.js'
import type { ByteSink } from '../../lib/formats/json-string.js'
import { type Framing, makeValid } from '../../lib/lines/framed-splitter.js'
import type { CodecDefinition } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import { EventJson } from '../event/event-json.js'
import { JsonCodec } from './json.js'

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

/**
 * A codec of records that are not lines. Sources use `framing` to convert each record to a line of JSON. They then
 * handle this line like a line of the codec json. Destinations use `write` to create records.
 */
export abstract class RecordCodec extends JsonCodec {
  readonly #event = new EventJson()
  readonly #json = new GrowingBytes()
  readonly #record = new GrowingBytes()

  constructor(definition: CodecDefinition, options: Readonly<Record<string, unknown>>) {
    super(definition, options)
  }

  abstract override readonly framing: Framing

  /**
   * Converts a single record, without delimiter, to a JSON object and adds the object to `to`. Returns false, and adds
   * nothing, if the record is invalid.
   */
  protected abstract readAlone(b: Buffer, start: number, end: number, to: GrowingBytes): boolean

  /** Adds the event as a record with its delimiter. The byte after the JSON is a control character. */
  protected abstract writeRecord(json: Buffer, start: number, end: number, to: GrowingBytes): void

  /** Reads a line of JSON. Also reads a record in base64, because a field may contain such a record. */
  override read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    const first = skipSpace(b, start, end)
    if (first === end || b[first] === OPEN_OBJECT || b[first]! >= 0x80) return super.read(b, start, end, to)
    const text = b.toString('latin1', first, end).trimEnd()
    if (!BASE64.test(text)) return false
    const record = Buffer.from(text, 'base64')
    const json = this.#json
    json.clear()
    if (!this.readAlone(record, 0, record.length, json)) return false
    makeValid(json)
    json.addByte(LF)
    return super.read(json.bytes, 0, json.length - 1, to)
  }

  override problem(b: Buffer, start: number, end: number): string | undefined {
    return b[skipSpace(b, start, end)] === OPEN_OBJECT ? super.problem(b, start, end) : undefined
  }

  override write(batch: EventBatch, to: ByteSink): void {
    const event = this.#event
    for (let i = 0; i < batch.length; i++) {
      event.read(batch, i)
      this.#record.clear()
      this.writeRecord(event.bytes, event.start, event.end, this.#record)
      this.#record.giveTo(to)
    }
  }
}
