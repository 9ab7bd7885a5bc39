import { Writable } from 'node:stream'
import { codecOf } from '../../src/core/codecs/list.js'
import { Ack, type AckStatus } from '../../src/core/event/ack.js'
import { EventBatch } from '../../src/core/event/batch.js'
import type { Origin } from '../../src/core/event/origin.js'
import { linesOf } from '../../src/engine/testing/batches.js'
import { WantedNames } from '../../src/lib/formats/json-scan.js'
import { LineSplitter } from '../../src/lib/lines/line-splitter.js'

export * from '../../src/engine/testing/batches.js'

/** Where the lines of a source come from: of files at `path` if there is one. */
export function originOf(decode: string, path?: string): Origin {
  return {
    source: 'in',
    host: 'h',
    codec: codecOf(decode)!,
    wanted: new WantedNames(),
    ...(path === undefined ? {} : { path }),
  }
}

/** The batches that a reader makes of `bytes`, with the last unfinished line too. */
export function batchesOf(
  bytes: Buffer | string,
  origin: Origin,
  onSettled: (status: AckStatus) => void = () => {},
  splitter = new LineSplitter(1 << 20),
): EventBatch[] {
  const frames = [splitter.push(Buffer.from(bytes as string)), splitter.flush()]
  return frames.flatMap(frame => (frame ? [new EventBatch(frame, origin, 1_700_000_000_000, new Ack(onSettled))] : []))
}

/** Reads an output to its end: notes the lines, and settles what comes. */
export function collectLines(into: string[], status: AckStatus = 'delivered'): Writable {
  return new Writable({
    objectMode: true,
    write(batch: EventBatch, _encoding, done) {
      into.push(...linesOf(batch))
      batch.ack.settle(status)
      done()
    },
  })
}
