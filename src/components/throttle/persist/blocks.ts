import { crc32 } from 'node:zlib'

/**
 * A file of saved state is a series of blocks, each with its length, its checksum, and the time on two clocks. If a
 * file is cut or damaged, all blocks before the damage remain readable.
 */

/** When a block was made, by two clocks: the clock of the decisions (`now`) and the wall clock (`wall`). */
export interface Stamp {
  readonly now: number
  readonly wall: number
}

export interface BlockHead extends Stamp {
  readonly length: number
  readonly sum: number
}

/** Bytes of a head: the length of the content, the checksum of all bytes after the checksum, and the two times. */
export const HEAD_BYTES = 24
const SUMMED_FROM = 8

/** Writes the head of a block. The content is already in `block`, from HEAD_BYTES on. */
export function sealBlock(block: Buffer, { now, wall }: Stamp): Buffer {
  block.writeUInt32LE(block.length - HEAD_BYTES, 0)
  block.writeDoubleLE(now, SUMMED_FROM)
  block.writeDoubleLE(wall, SUMMED_FROM + 8)
  block.writeUInt32LE(crc32(block.subarray(SUMMED_FROM)), 4)
  return block
}

export function blockHead(bytes: Buffer): BlockHead {
  return {
    length: bytes.readUInt32LE(0),
    sum: bytes.readUInt32LE(4),
    now: bytes.readDoubleLE(SUMMED_FROM),
    wall: bytes.readDoubleLE(SUMMED_FROM + 8),
  }
}

export function isIntact(head: Buffer, content: Buffer): boolean {
  return blockHead(head).sum === crc32(content, crc32(head.subarray(SUMMED_FROM)))
}
