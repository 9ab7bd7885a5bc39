import { WireWriter } from '../../core/codecs/protobuf/protobuf-output.js'
import { BYTES, VARINT } from '../../core/codecs/protobuf/protobuf-wire.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'

/** How many records of a request were refused, and why the first of them. */
export interface RefusedRecords {
  readonly refused: number
  readonly why: string
}

export function answerJson({ refused, why }: RefusedRecords): object {
  return refused === 0 ? {} : { partialSuccess: { rejectedLogRecords: String(refused), errorMessage: why } }
}

export function answerProtobuf({ refused, why }: RefusedRecords): Buffer {
  const wire = new WireWriter()
  wire.to = new GrowingBytes()
  if (refused === 0) return Buffer.alloc(0)
  wire.tag(1, BYTES)
  const partial = wire.begin()
  wire.tag(1, VARINT)
  wire.varint(refused)
  wire.tag(2, BYTES)
  const text = wire.begin()
  wire.to.addText(why)
  wire.end(text)
  wire.end(partial)
  return wire.to.bytes.subarray(0, wire.to.length)
}
