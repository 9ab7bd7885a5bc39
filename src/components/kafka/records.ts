import { encodedEvent, roomFor, writtenFrom } from '../../core/codecs/encode.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { appendEventId, eventSum } from '../../core/event/event-id.js'
import { EventTime } from '../../core/event/event-time.js'
import type { FieldPath } from '../../core/event/field-path.js'
import { type CompiledTemplate, compileTemplate, isConstant, type Template } from '../../core/template.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { SpareBytes } from '../../lib/formats/spare-bytes.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import { murmur2 } from './murmur2.js'
import type { KafkaOptions } from './options.js'
import type { EncodedRecords } from './record-batch.js'
import { addRecordHead, addVarint, zigzagSize } from './record-batch.js'
import { KafkaRecordLines } from './record-lines.js'

/** Typical bytes of a record besides its event and headers. */
const RECORD_ROOM = 16

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
  /** The headers of all records, if they are equal. */
  readonly #constantHeaders: GrowingBytes | undefined
  /** The WebAssembly kernel, which writes most records. Undefined if it cannot run, or if events have own keys or headers. */
  readonly #kernel: KafkaRecordLines | undefined
  readonly #time: EventTime
  readonly #text = new GrowingBytes()
  readonly #encoded = new GrowingBytes()
  readonly #spare = new SpareBytes()

  constructor(options: KafkaOptions, { field }: Pick<ComponentContext, 'field'>) {
    const { key_field, headers, id_header, timestamp } = options
    this.#options = options
    this.#key = key_field && compileTemplate(keyTemplate(key_field), field)
    const named = Object.entries(headers).map(([name, value]) => ({ name, value: compileTemplate(value, field) }))
    const id = id_header === undefined ? [] : [{ name: id_header, value: undefined }]
    this.#headers = [...named, ...id].map(({ name, value }) => ({ name: Buffer.from(name), value }))
    const all = Object.entries(headers)
    if (id_header === undefined && all.every(([, value]) => isConstant(value)))
      this.#constantHeaders = encodeHeaders(
        all.map(([name, { parts }]) => [Buffer.from(name), Buffer.from(parts.join(''))]),
        this.#encoded,
      )
    if (this.#constantHeaders && !key_field) this.#kernel = theKernel()?.part(KafkaRecordLines)
    this.#time = new EventTime(field(timestamp))
  }

  encode(request: readonly EventBatch[]): EncodedRecords {
    const to = this.#spare.take(roomFor(request, RECORD_ROOM))
    const times: number[] = []
    const hashes: (number | undefined)[] = []
    for (const batch of request) {
      // Finds all flags before the kernel writes records, because finding flags may also use the kernel.
      if (this.#kernel) for (let i = 0; i < batch.length; i++) batch.look(i)
      for (let i = 0; i < batch.length; ) {
        const from = i
        i = this.#addLines(batch, i, to, times)
        if (i === from) this.#add(batch, i++, to, times, hashes)
      }
    }
    return { bytes: to.bytes.subarray(0, to.length), memory: to, times, hashes }
  }

  /** From `first` on, adds the records that the kernel writes in one call. Returns the index after their events. */
  #addLines(batch: EventBatch, first: number, to: GrowingBytes, times: number[]): number {
    const lines = this.#kernel && writtenFrom(this.#options.encoding, batch, first)
    if (!lines) return first
    return this.#kernel!.write(lines, first, i => this.#time.msOf(batch, i), this.#constantHeaders!, to, times)
  }

  #add(batch: EventBatch, i: number, to: GrowingBytes, times: number[], hashes: (number | undefined)[]): void {
    const time = this.#time.msOf(batch, i)
    const offset = times.push(time) - 1
    const headers = this.#constantHeaders ?? this.#encodeHeaders(batch, i)
    const hash = this.hashOf(batch, i)
    if (this.#key) hashes.push(hash)
    const key = this.#text
    const value = encodedEvent(this.#options.encoding, batch, i)
    const [keySize, valueSize] = [key.length === 0 ? -1 : key.length, value.end - value.start]
    const size = zigzagSize(keySize) + key.length + zigzagSize(valueSize) + valueSize + headers.length
    addRecordHead(to, size, time - times[0]!, offset)
    addVarint(to, keySize)
    to.add(key.bytes, 0, key.length)
    addVarint(to, valueSize)
    to.add(value.bytes, value.start, value.end)
    to.add(headers.bytes, 0, headers.length)
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

  /** Encodes the headers of an event into `#encoded`. */
  #encodeHeaders(batch: EventBatch, i: number): GrowingBytes {
    const values = this.#headers.map(({ name, value }): [name: Buffer, value: Buffer] => {
      this.#text.clear()
      if (value) value.append(batch, i, this.#text)
      else appendEventId(batch, i, eventSum(batch, i), this.#text)
      return [name, Buffer.from(this.#text.bytes.subarray(0, this.#text.length))]
    })
    return encodeHeaders(values, this.#encoded)
  }
}

function encodeHeaders(headers: readonly (readonly [name: Buffer, value: Buffer])[], to: GrowingBytes): GrowingBytes {
  to.clear()
  const present = headers.filter(([, { length }]) => length > 0)
  addVarint(to, present.length)
  for (const part of present.flat()) {
    addVarint(to, part.length)
    to.add(part, 0, part.length)
  }
  return to
}

/** If the key field is null or missing, the event does not have a key. */
const keyTemplate = (path: FieldPath): Template => ({
  text: '',
  parts: [{ path, fallback: '', hasFallback: true }],
})
