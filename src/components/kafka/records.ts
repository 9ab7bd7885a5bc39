import { encodedEvent, roomFor } from '../../core/codecs/encode.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { appendEventId, eventSum } from '../../core/event/event-id.js'
import { EventTime } from '../../core/event/event-time.js'
import type { FieldPath } from '../../core/event/field-path.js'
import { type CompiledTemplate, compileTemplate, type Template } from '../../core/template.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { SpareBytes } from '../../lib/formats/spare-bytes.js'
import { murmur2 } from './murmur2.js'
import type { KafkaOptions } from './options.js'
import type { EncodedRecords } from './record-batch.js'
import { putVarint } from './record-batch.js'

/** Typical bytes of a record besides its event and headers. */
const RECORD_ROOM = 16
const LONGEST_VARINT = 10

interface Header {
  readonly name: Buffer
  /** Undefined: the header contains the id of the event. */
  readonly value: CompiledTemplate | undefined
}

/** Equal requests have equal bytes. */
export class RecordEncoder {
  readonly #options: KafkaOptions
  readonly #key: CompiledTemplate | undefined
  readonly #headers: readonly Header[]
  readonly #time: EventTime
  readonly #text = new GrowingBytes()
  readonly #spare = new SpareBytes()

  constructor(options: KafkaOptions, { field }: Pick<ComponentContext, 'field'>) {
    const { key_field, headers, id_header, timestamp } = options
    this.#options = options
    this.#key = key_field && compileTemplate(keyTemplate(key_field), field)
    const named = Object.entries(headers).map(([name, value]) => ({ name, value: compileTemplate(value, field) }))
    const id = id_header === undefined ? [] : [{ name: id_header, value: undefined }]
    this.#headers = [...named, ...id].map(({ name, value }) => ({ name: Buffer.from(name), value }))
    this.#time = new EventTime(field(timestamp))
  }

  encode(request: readonly EventBatch[]): EncodedRecords {
    const to = this.#spare.take(roomFor(request, RECORD_ROOM))
    const starts: number[] = []
    const times: number[] = []
    const hashes: (number | undefined)[] = []
    for (const batch of request)
      for (let i = 0; i < batch.length; i++) {
        starts.push(to.length)
        times.push(this.#time.msOf(batch, i))
        hashes.push(this.#addKey(batch, i, to))
        const { bytes, start, end } = encodedEvent(this.#options.encoding, batch, i)
        addVarint(to, end - start)
        to.add(bytes, start, end)
        this.#addHeaders(batch, i, to)
      }
    starts.push(to.length)
    return { bytes: to.bytes.subarray(0, to.length), memory: to, starts, times, hashes }
  }

  release({ memory }: EncodedRecords): void {
    this.#spare.give(memory)
  }

  keyOf(batch: EventBatch, i: number): string | undefined {
    if (!this.#key) return undefined
    this.#text.clear()
    this.#key.append(batch, i, this.#text)
    return this.#text.length === 0 ? undefined : this.#text.bytes.toString('utf8', 0, this.#text.length)
  }

  /** The hash of the event's key; undefined: it has no key. The key is then in `#text`. */
  hashOf(batch: EventBatch, i: number): number | undefined {
    this.#text.clear()
    this.#key?.append(batch, i, this.#text)
    const { bytes, length } = this.#text
    return length === 0 ? undefined : murmur2(bytes, 0, length)
  }

  #addKey(batch: EventBatch, i: number, to: GrowingBytes): number | undefined {
    const hash = this.hashOf(batch, i)
    const { bytes, length } = this.#text
    addVarint(to, length === 0 ? -1 : length)
    to.add(bytes, 0, length)
    return hash
  }

  #addHeaders(batch: EventBatch, i: number, to: GrowingBytes): void {
    if (this.#headers.length === 0) {
      addVarint(to, 0)
      return
    }
    const values: [name: Buffer, value: Buffer][] = []
    for (const { name, value } of this.#headers) {
      this.#text.clear()
      if (value) value.append(batch, i, this.#text)
      else appendEventId(batch, i, eventSum(batch, i), this.#text)
      const { bytes, length } = this.#text
      if (length > 0) values.push([name, Buffer.from(bytes.subarray(0, length))])
    }
    addVarint(to, values.length)
    for (const part of values.flat()) {
      addVarint(to, part.length)
      to.add(part, 0, part.length)
    }
  }
}

/** If the key field is null or missing, the event does not have a key. */
const keyTemplate = (path: FieldPath): Template => ({
  text: '',
  parts: [{ path, fallback: '', hasFallback: true }],
})

function addVarint(to: GrowingBytes, value: number): void {
  to.reserve(LONGEST_VARINT)
  to.length = putVarint(to.bytes, to.length, value)
}
