import { GrowingBytes } from '../../lib/formats/growing-bytes.js'

/** How long a broker waits for its replicas. The attempt to send can end earlier. */
const REPLICAS_MS = 30_000

/** Encodes a request (Produce, version 9) with the batches of one topic. */
export function produceRequest(
  topic: string,
  shares: readonly { readonly partition: number; readonly batch: Buffer }[],
  acks: 'all' | 1,
): Buffer[] {
  const head = new GrowingBytes()
  head.reserve(32 + topic.length)
  head.addByte(0)
  head.length = head.bytes.writeInt16BE(acks === 'all' ? -1 : 1, head.length)
  head.length = head.bytes.writeInt32BE(REPLICAS_MS, head.length)
  addLength(head, 1)
  addLength(head, Buffer.byteLength(topic))
  head.addText(topic)
  addLength(head, shares.length)
  const parts: Buffer[] = [Buffer.from(head.bytes.subarray(0, head.length))]
  for (const { partition, batch } of shares) {
    head.clear()
    head.length = head.bytes.writeInt32BE(partition)
    addLength(head, batch.length)
    parts.push(Buffer.from(head.bytes.subarray(0, head.length)), batch, NO_TAGS)
  }
  parts.push(NO_TAGS, NO_TAGS)
  return parts
}

/** The empty tags at the end of a partition, a topic and the request. */
const NO_TAGS = Buffer.of(0)

/** Writes a length plus one, because 0 stands for null. */
function addLength(to: GrowingBytes, length: number): void {
  let rest = length + 1
  for (; rest > 0x7f; rest >>>= 7) to.addByte((rest & 0x7f) | 0x80)
  to.addByte(rest)
}
