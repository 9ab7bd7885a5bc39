import type { Ack } from '../core/ack.js'
import { EventBatch } from '../core/batch.js'
import type { Fields } from '../core/event.js'
import type { Origin } from '../core/origin.js'
import { jsonText } from '../lib/json-text.js'
import { LineSplitter } from '../lib/line-splitter.js'

const NO_LIMIT = 2 ** 31 - 1

/** A batch of events that a component made, as lines of JSON. `origin.decode` must be json. */
export function madeBatch(events: readonly Fields[], origin: Origin, wall: number, ack: Ack): EventBatch {
  return lineBatch(Buffer.from(events.map(fields => `${jsonText(fields)}\n`).join('')), origin, wall, ack)
}

/** The same of lines that are JSON already, each with its line end. */
export function lineBatch(lines: Buffer, origin: Origin, wall: number, ack: Ack): EventBatch {
  const frame = new LineSplitter(NO_LIMIT).push(lines)
  if (!frame) throw new Error('a batch of no events was made')
  const batch = new EventBatch(frame, origin, wall, ack)
  batch.scan()
  return batch
}
