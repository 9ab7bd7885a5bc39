import { COMMA, OPEN_ARRAY, OPEN_OBJECT } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { addInteger } from '../../lib/formats/json-numbers.js'
import { addValue } from './any-value.js'
import type { JsonAttribute, RecordField, RecordGroup, RecordScope, RecordWriter } from './records.js'

/** In JSON, 64-bit integers are strings, and ids are hexadecimal digits. */
export class JsonRecords implements RecordWriter {
  readonly contentType = 'application/json'
  to!: GrowingBytes
  /** The closing text of each open part. */
  readonly #ends: string[] = []

  #begin(text: string, end: string): void {
    this.#next(text)
    this.#ends.push(end)
  }

  /** Adds a member or an item. If it is not the first, adds a comma before it. */
  #next(text: string): void {
    const { bytes, length } = this.to
    const last = length === 0 ? OPEN_ARRAY : bytes[length - 1]
    if (last !== OPEN_ARRAY && last !== OPEN_OBJECT) this.to.addByte(COMMA)
    this.to.addText(text)
  }

  openRecord(): void {
    this.#begin('{', '}')
  }

  openBody(): void {
    this.#begin('"body":{', '}')
  }

  openAttributes(): void {
    this.#begin('"attributes":[', ']')
  }

  openAttribute(b: Buffer, start: number, end: number): void {
    this.openMember(b, start, end)
  }

  textAttribute(name: Buffer, nameStart: number, nameEnd: number, b: Buffer, start: number, end: number): void {
    this.openAttribute(name, nameStart, nameEnd)
    this.text(b, start, end)
    this.close()
  }

  openMap(): void {
    this.#begin('"kvlistValue":{"values":[', ']}')
  }

  openMember(b: Buffer, start: number, end: number): void {
    this.#begin('{"key":"', '}}')
    this.to.addEscaped(b, start, end)
    this.to.addText('","value":{')
  }

  openList(): void {
    this.#begin('"arrayValue":{"values":[', ']}')
  }

  openItem(): void {
    this.#begin('{', '}')
  }

  close(): void {
    this.to.addText(this.#ends.pop()!)
  }

  time({ name }: RecordField, seconds: number, nanos: number): void {
    this.#next(`"${name}":"${seconds === 0 ? nanos : `${seconds}${String(nanos).padStart(9, '0')}`}"`)
  }

  number({ name }: RecordField, value: number): void {
    this.#next(`"${name}":${value}`)
  }

  word({ name }: RecordField, text: string): void {
    this.#next(`"${name}":${JSON.stringify(text)}`)
  }

  id(field: RecordField, hex: string): void {
    this.word(field, hex)
  }

  text(b: Buffer, start: number, end: number): void {
    this.#next('"stringValue":"')
    this.to.addEscaped(b, start, end)
    this.to.addText('"')
  }

  bool(value: boolean): void {
    this.#next(`"boolValue":${value}`)
  }

  integer(value: number | bigint): void {
    this.#next('"intValue":"')
    addInteger(this.to, value)
    this.to.addText('"')
  }

  double(value: number): void {
    this.#next(`"doubleValue":${value}`)
  }

  request(groups: Iterable<RecordGroup>): Buffer[] {
    const parts: Buffer[] = []
    for (const { resource, scope, records } of groups) {
      this.to = new GrowingBytes()
      this.to.addText(parts.length === 0 ? '{"resourceLogs":[{"resource":{' : ',{"resource":{')
      this.#attributes(resource)
      this.to.addText('},"scopeLogs":[{')
      if (scope) this.#scope(scope)
      this.#next('"logRecords":[')
      parts.push(this.to.bytes.subarray(0, this.to.length))
      parts.push(records.bytes.subarray(0, records.length), Buffer.from(']}]}'))
    }
    return [...parts, Buffer.from(']}')]
  }

  #scope({ name, version, attributes }: RecordScope): void {
    this.#begin('"scope":{', '}')
    this.word({ number: 1, name: 'name' }, name)
    if (version) this.word({ number: 2, name: 'version' }, version)
    if (attributes.length > 0) this.#attributes(attributes)
    this.close()
  }

  #attributes(attributes: readonly JsonAttribute[]): void {
    this.openAttributes()
    for (const [name, json] of attributes) {
      this.openMember(Buffer.from(name), 0, Buffer.byteLength(name))
      addValue(this, json, 0, json.length - 1)
      this.close()
    }
    this.close()
  }
}
