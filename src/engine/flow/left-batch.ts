import type { Ack } from '../../core/event/ack.js'
import type { Places } from '../../core/event/places.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import { BatchDecoder, encodeBatch } from './disk-buffer/batch-record.js'
import type { Left } from './waiting-events.js'

/** A batch between two stages, of which the later one may read other fields. */
export interface LeftRecord {
  readonly source: string
  readonly ack: Ack
  readonly record: Buffer
  readonly places: Places | undefined
  readonly keptMs: number | undefined
  readonly dueAt: number
}

/** What waits, by the id of the processor. */
export type WaitingBatches = ReadonlyMap<string, readonly LeftRecord[]>

/**
 * Encodes what a stage has left, while the fields are those of its engine. It is due at once, unless the options of its
 * successor are the same.
 */
export function encodeLeft({ batch, keptMs, dueAt }: Left, isSame: boolean): LeftRecord {
  const { ack, held, origin } = batch
  const places = batch.places?.kept(batch.starts, batch.length)
  const record = encodeBatch(batch)
  if (ack.sole) ack.shrink(Math.max(0, held - record.length))
  return { source: origin.source, ack, record, places, keptMs, dueAt: isSame ? dueAt : 0 }
}

/** Creates a function that decodes records, once the fields are those of the next engine. */
export function leftDecoder(wanted: WantedNames): (left: LeftRecord) => Left {
  const decoder = new BatchDecoder(wanted)
  return ({ record, ack, places, keptMs, dueAt }) => {
    const batch = decoder.decode(record, ack)
    batch.places = places?.slice(0, batch.length)
    return { batch, keptMs, dueAt }
  }
}
