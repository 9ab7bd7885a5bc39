import { codecOf } from '../../src/codecs/list.js'
import { Ack, type AckStatus } from '../../src/core/ack.js'
import { EventBatch } from '../../src/core/batch.js'
import type { Origin } from '../../src/core/origin.js'
import { WantedNames } from '../../src/lib/json-scan.js'
import { LineSplitter } from '../../src/lib/line-splitter.js'

export function originOf(decode: string, path?: string): Origin {
  return {
    source: 'in',
    host: 'h',
    codec: codecOf(decode)!,
    wanted: new WantedNames(),
    ...(path === undefined ? {} : { path }),
  }
}

/** The lines of `bytes` as a reader would frame them, its last unfinished one too. */
export function linesOf(
  bytes: Buffer | string,
  origin: Origin,
  onSettled: (status: AckStatus) => void = () => {},
  splitter = new LineSplitter(1 << 20),
): EventBatch[] {
  const frames = [splitter.push(Buffer.from(bytes as string)), splitter.flush()]
  return frames.flatMap(frame => (frame ? [new EventBatch(frame, origin, 1_700_000_000_000, new Ack(onSettled))] : []))
}

/** A generator of numbers in [0, 1) that gives the same ones for the same seed. */
export function seeded(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
