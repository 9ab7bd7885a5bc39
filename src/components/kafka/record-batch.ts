import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import type { KafkaClient } from '../../net/kafka/client.js'
import type { KafkaOptions } from './options.js'

export interface EncodedRecords {
  /** The encoded key, value and headers of each record. */
  readonly bytes: Buffer
  readonly memory: GrowingBytes
  /** The start of each record in `bytes`, then the end of the last record. */
  readonly starts: readonly number[]
  /** Time of each record, in milliseconds since the epoch. */
  readonly times: readonly number[]
  /** Hash of the key of each record; undefined without a key. */
  readonly hashes: readonly (number | undefined)[]
}

/** Bytes before the records: offsets, checksum, times, producer, and number of records. */
const HEAD = 61
const CHECKSUM_AT = 17
/** The checksum covers all bytes from this position on. */
const ATTRIBUTES_AT = 21
const PRODUCER_AT = 43
const COUNT_AT = 57
const MAGIC = 2
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
  const base = records.times[indices[0]!]!
  const plain = compression === 'none'
  const [from, bodies] = [plain ? HEAD : 0, records.bytes]
  let size = from
  for (let offset = 0; offset < indices.length; offset++) {
    const length = recordSize(records, indices[offset]!, base, offset)
    size += zigzagSize(length) + length
  }
  const bytes = Buffer.allocUnsafe(size)
  let latest = base
  let at = from
  for (let offset = 0; offset < indices.length; offset++) {
    const i = indices[offset]!
    const time = records.times[i]!
    latest = Math.max(latest, time)
    at = putVarint(bytes, at, recordSize(records, i, base, offset))
    bytes[at++] = 0
    at = putVarint(bytes, at, time - base)
    at = putVarint(bytes, at, offset)
    at += bodies.copy(bytes, at, records.starts[i]!, records.starts[i + 1]!)
  }
  const head = plain ? bytes : Buffer.allocUnsafe(HEAD)
  const compressed = plain ? undefined : await compress(bytes, compression, client)
  head.writeBigInt64BE(0n, 0)
  head.writeInt32BE((compressed ? HEAD + compressed.length : size) - 12, 8)
  head.writeInt32BE(-1, 12)
  head[16] = MAGIC
  head.writeInt16BE(ATTRIBUTES[compression], ATTRIBUTES_AT)
  head.writeInt32BE(indices.length - 1, 23)
  head.writeBigInt64BE(BigInt(base), 27)
  head.writeBigInt64BE(BigInt(latest), 35)
  head.writeInt32BE(indices.length, COUNT_AT)
  return compressed ? Buffer.concat([head, compressed]) : head
}

/** Writes the producer, the sequence number of the first record, and the checksum into a batch. */
export function stamp(batch: Buffer, { id, epoch }: Producer, sequence: number, { crc32c }: KafkaClient): void {
  batch.writeBigInt64BE(id, PRODUCER_AT)
  batch.writeInt16BE(epoch, PRODUCER_AT + 8)
  batch.writeInt32BE(sequence, PRODUCER_AT + 10)
  batch.writeUInt32BE(crc32c(batch.subarray(ATTRIBUTES_AT)), CHECKSUM_AT)
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

function recordSize({ times, starts }: EncodedRecords, i: number, base: number, offset: number): number {
  return 1 + zigzagSize(times[i]! - base) + zigzagSize(offset) + starts[i + 1]! - starts[i]!
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

export function putVarint(to: Buffer, at: number, value: number): number {
  let rest = zigzag(value)
  for (; rest >= 128; rest = Math.floor(rest / 128)) to[at++] = (rest % 128) | 128
  to[at++] = rest
  return at
}

const zigzag = (value: number) => (value >= 0 ? 2 * value : -2 * value - 1)
