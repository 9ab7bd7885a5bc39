import { encodeLines } from '../../codecs/encode.js'
import { JSON_OBJECTS } from '../../codecs/json.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Job, JobDone } from './messages.js'

/** A batch in the form in which it is given to a script. */
export function jobOf({ id, batch, skip }: { id: number; batch: EventBatch; skip: Job['skip'] }): Job {
  const { parts, bytes } = encodeLines(JSON_OBJECTS, [batch])
  const lines = Buffer.allocUnsafeSlow(bytes)
  let at = 0
  for (const part of parts) at += part.copy(lines, at)
  return { id, length: batch.length, lines, skip }
}

/** Writes the new JSON of events into their batch. */
export function applyChanges(batch: EventBatch, { sizes, bytes }: Pick<JobDone, 'sizes' | 'bytes'>): void {
  if (bytes.length === 0) return
  const texts = batch.textsToChange()
  let start = texts.reserve(bytes.length - 1, 0)
  texts.bytes.set(bytes, start)
  texts.end(start + bytes.length - 1)
  for (let i = 0; i < batch.length; i++) {
    if (sizes[i] === 0) continue
    const end = start + sizes[i]!
    batch.setText(i, start, end)
    start = end + 1
  }
}
