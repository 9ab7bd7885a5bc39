import type { Ack } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import { madeJson } from '../../core/event/event.js'
import type { Fields } from '../../core/event/event-fields.js'
import { namedPlaces, newReading } from '../../core/event/event-id.js'
import type { Origin } from '../../core/event/origin.js'
import { SentOffsets } from '../../core/event/sent-offsets.js'
import { splitLines } from '../../lib/lines/line-splitter.js'

/** The line of an event created by a component, with its line end. Throws if the fields are not a JSON object. */
export function madeLine(fields: Fields): string {
  return `${madeJson(fields)}\n`
}

/** The reading id of events that this process makes. `made`: their bytes so far. */
const READING = newReading()
let made = 0

/**
 * Names the events of `made`, which replace events [from, to) of `batch`. A name consists of the place of the replaced
 * event and a number. If the replaced event is read again, its replacements get the same names. `sizeOf`: bytes of the
 * lines that replace one event.
 */
export function nameAfter(
  made: EventBatch,
  batch: EventBatch,
  from: number,
  to: number,
  sizeOf: (i: number) => number,
) {
  if (batch.reading === '') return
  const names: string[] = []
  let end = made.starts[0]!
  for (let i = from; i < to; i++) {
    end += sizeOf(i)
    for (let n = 0; names.length < made.length && made.starts[names.length]! < end; n++)
      names.push(`${batch.place(i)} ${n}`)
  }
  made.places = namedPlaces(batch.reading, names)
}

/** Creates a batch of JSON lines, each with its line end. The codec of `origin` must be json. */
export function lineBatch(lines: Buffer, origin: Origin, wall: number, ack: Ack, isBacklog = false): EventBatch {
  const frame = splitLines(lines)
  if (!frame) throw new Error('a batch without events was made')
  const batch = new EventBatch(frame, origin, wall, ack, isBacklog)
  batch.sentOffsets = new SentOffsets(batch.starts[0]!, { reading: READING, at: made, isMade: true })
  made += batch.span
  batch.scan()
  return batch
}
