import type { BufferFile, BufferFolder } from '../../../../engine/flow/disk-buffer/files.js'
import { blockHead, HEAD_BYTES, isIntact, type Stamp } from '../../../throttle/persist/blocks.js'

/**
 * A throttle keeps its buckets in data_dir, in segments with increasing numbers. Later segments take precedence. The
 * first segment of a run begins with all buckets, and so does each segment that replaces earlier segments. Changes to
 * the buckets follow.
 */

/** In the newest format, buckets have sums (CreditedWindows). Event time has none, like earlier versions. */
export const BUCKETS_FORMAT = 2
export const WITHOUT_SUMS = 1
const NAME = /^(\d{1,15})\.buckets$/

/** The description of a segment, in its first block. */
export interface SegmentHead {
  readonly sluice_buckets: number
  /** The run of the throttle that wrote the segment. Times in the segment are on the clock of that run. */
  readonly run: string
  /** The options that the state depends on, by name. */
  readonly means: Readonly<Record<string, unknown>>
}

export interface BucketSegment extends SegmentHead {
  readonly name: string
  readonly first: Stamp
  readonly last: Stamp
  /** How many bytes follow the last whole block. They are damaged, or were being written when the process ended. */
  readonly lost: number
}

export const bucketSegmentName = (number: number) => `${number}.buckets`

export async function segmentsIn(folder: BufferFolder): Promise<number[]> {
  const names = await folder.list()
  return names.flatMap(name => NAME.exec(name)?.slice(1).map(Number) ?? []).sort((a, b) => a - b)
}

interface Block extends Stamp {
  readonly content: Buffer
  readonly end: number
}

/** Yields the blocks of a segment, up to the first block that is incomplete or damaged. */
export async function* blocksOf(file: BufferFile): AsyncGenerator<Block> {
  const size = await file.size()
  const head = Buffer.alloc(HEAD_BYTES)
  for (let at = 0; at + HEAD_BYTES <= size; ) {
    await file.read(head, at)
    const { length, now, wall } = blockHead(head)
    const end = at + HEAD_BYTES + length
    if (end > size) return
    const content = Buffer.allocUnsafe(length)
    if ((await file.read(content, at + HEAD_BYTES)) < length || !isIntact(head, content)) return
    yield { now, wall, content, end }
    at = end
  }
}

/** A segment's description. Undefined if its first block is incomplete or damaged. Throws Error for a later format. */
export async function surveySegment(folder: BufferFolder, name: string): Promise<BucketSegment | undefined> {
  const file = await folder.open(name)
  try {
    let head: SegmentHead | undefined
    let first: Stamp | undefined
    let last: Stamp | undefined
    let end = 0
    for await (const block of blocksOf(file)) {
      head ??= JSON.parse(block.content.toString()) as SegmentHead
      first ??= block
      last = { now: block.now, wall: block.wall }
      end = block.end
    }
    if (!head || !first || !last) return undefined
    return { ...head, name, first: { now: first.now, wall: first.wall }, last, lost: (await file.size()) - end }
  } finally {
    await file.close()
  }
}
