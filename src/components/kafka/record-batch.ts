import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import type { KafkaClient } from '../../net/kafka/client.js'
import type { KafkaOptions } from './options.js'
import { KafkaRecordLines } from './record-lines.js'

export interface EncodedRecords {
  /** The records, as in a batch that has all of them. */
  readonly bytes: Buffer
  readonly memory: GrowingBytes
  /** Time of each record, in milliseconds since the epoch. */
  readonly times: readonly number[]
  /** Hash of the key of each record; undefined without a key. Empty: no record has a key. */
  readonly hashes: readonly (number | undefined)[]
  /** Two numbers for each record: the start and the end of its key, value and headers. Set when they are needed. */
  bodies?: readonly number[]
}

/** Bytes before the records: offsets, checksum, times, producer, and number of records. */
const HEAD = 61
const CHECKSUM_AT = 17
/** The checksum covers all bytes from this position on. */
const ATTRIBUTES_AT = 21
const PRODUCER_AT = 43
const COUNT_AT = 57
const MAGIC = 2
const LONGEST_VARINT = 10
/** Typical bytes of a record before its key. */
const HEAD_ROOM = 12
/** Code of each compression in the attributes. */
const ATTRIBUTES = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const

export interface Producer {
  readonly id: bigint
  readonly epoch: number
}

/** The producer of a batch without sequence numbers. */
export const NO_PRODUCER: Producer = { id: -1n, epoch: -1 }

/** Encodes these events as a record batch, in the format of Kafka 0.11 and later. `stamp` completes the batch. */
export async function recordBatch(
  records: EncodedRecords,
  indices: readonly number[],
  compression: KafkaOptions['compression'],
  client: KafkaClient,
): Promise<Buffer> {
  const { times } = records
  const base = times[indices[0]!]!
  let latest = base
  for (const i of indices) latest = Math.max(latest, times[i]!)
  const plain = indices.length === times.length ? records.bytes : someRecords(records, indices)
  const body = compression === 'none' ? plain : await compress(plain, compression, client)
  const batch = Buffer.allocUnsafe(HEAD + body.length)
  batch.writeBigInt64BE(0n, 0)
  batch.writeInt32BE(batch.length - 12, 8)
  batch.writeInt32BE(-1, 12)
  batch[16] = MAGIC
  batch.writeInt16BE(ATTRIBUTES[compression], ATTRIBUTES_AT)
  batch.writeInt32BE(indices.length - 1, 23)
  batch.writeBigInt64BE(BigInt(base), 27)
  batch.writeBigInt64BE(BigInt(latest), 35)
  batch.writeInt32BE(indices.length, COUNT_AT)
  body.copy(batch, HEAD)
  return batch
}

/** Returns these records as in a batch that has no others. */
function someRecords(records: EncodedRecords, indices: readonly number[]): Buffer {
  const { bytes, times } = records
  const bodies = (records.bodies ??= bodiesOf(records))
  const base = times[indices[0]!]!
  let room = indices.length * HEAD_ROOM
  for (const i of indices) room += bodies[2 * i + 1]! - bodies[2 * i]!
  const some = new GrowingBytes(room)
  for (const [offset, i] of indices.entries()) {
    const [start, end] = [bodies[2 * i]!, bodies[2 * i + 1]!]
    addRecordHead(some, end - start, times[i]! - base, offset)
    some.add(bytes, start, end)
  }
  return some.bytes.subarray(0, some.length)
}

function bodiesOf({ bytes, times }: EncodedRecords): number[] {
  const bodies: number[] = []
  const base = times[0]!
  for (let at = 0, offset = 0; offset < times.length; offset++) {
    let length = 0
    for (let unit = 1, byte = 0x80; byte >= 0x80; unit *= 128) length += ((byte = bytes[at++]!) & 0x7f) * unit
    bodies.push(at + headSize(times[offset]! - base, offset), (at += length / 2))
  }
  return bodies
}

/** `size`: bytes of the key, value and headers. `delta`: milliseconds after the first record. */
export function addRecordHead(to: GrowingBytes, size: number, delta: number, offset: number): void {
  addVarint(to, headSize(delta, offset) + size)
  to.addByte(0)
  addVarint(to, delta)
  addVarint(to, offset)
}

/** Bytes of a record between its length and its key. */
const headSize = (delta: number, offset: number) => 1 + zigzagSize(delta) + zigzagSize(offset)

/** Writes the producer, the sequence number of the first record, and the checksum into a batch. */
export function stamp(batch: Buffer, { id, epoch }: Producer, sequence: number, { crc32c }: KafkaClient): void {
  batch.writeBigInt64BE(id, PRODUCER_AT)
  batch.writeInt16BE(epoch, PRODUCER_AT + 8)
  batch.writeInt32BE(sequence, PRODUCER_AT + 10)
  const covered = batch.subarray(ATTRIBUTES_AT)
  batch.writeUInt32BE(theKernel()?.part(KafkaRecordLines).sumOf(covered) ?? crc32c(covered), CHECKSUM_AT)
}

export const countOf = (batch: Buffer): number => batch.readInt32BE(COUNT_AT)

/** Whether two batches have the same records, even if their producers differ. */
export function haveSameRecords(a: Buffer, b: Buffer): boolean {
  return (
    a.length === b.length &&
    a.compare(b, ATTRIBUTES_AT, PRODUCER_AT, ATTRIBUTES_AT, PRODUCER_AT) === 0 &&
    a.compare(b, COUNT_AT, b.length, COUNT_AT, a.length) === 0
  )
}

type Compressor = (bytes: Buffer, options?: object) => Promise<Buffer>
const gzip: Compressor = promisify(zlib.gzip)

async function compress(
  bytes: Buffer,
  compression: Exclude<KafkaOptions['compression'], 'none'>,
  client: KafkaClient,
): Promise<Buffer> {
  if (compression === 'gzip') return await gzip(bytes, { level: 1 })
  if (compression !== 'zstd') return client.compressionsAlgorithms[compression].compressSync(bytes)
  const { zstdCompress } = zlib as unknown as { zstdCompress: typeof zlib.gzip }
  return await (promisify(zstdCompress) as Compressor)(bytes)
}

/** Returns how many bytes a number takes in Kafka's format. The lowest bit is the sign; each byte has seven bits. */
export function zigzagSize(value: number): number {
  let size = 1
  for (let rest = zigzag(value); rest >= 128; rest = Math.floor(rest / 128)) size++
  return size
}

export function addVarint(to: GrowingBytes, value: number): void {
  to.reserve(LONGEST_VARINT)
  let rest = zigzag(value)
  for (; rest >= 128; rest = Math.floor(rest / 128)) to.bytes[to.length++] = (rest % 128) | 128
  to.bytes[to.length++] = rest
}

const zigzag = (value: number) => (value >= 0 ? 2 * value : -2 * value - 1)
