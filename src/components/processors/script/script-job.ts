import { encodeLines } from '../../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../core/codecs/json.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { BatchScope } from '../../../core/processor.js'
import type { Job, JobDone, JobHead } from './messages.js'

/** A batch in the form in which it is given to a script. */
export function jobOf(batch: EventBatch, head: Omit<JobHead, 'length'>): Job {
  const { parts, bytes } = encodeLines(JSON_OBJECTS, [batch])
  const lines = Buffer.allocUnsafeSlow(bytes)
  let at = 0
  for (const part of parts) at += part.copy(lines, at)
  return { ...head, length: batch.length, lines }
}

/** Carries out what a script made of a batch. */
export function apply(batch: EventBatch, to: Uint8Array, scope: BatchScope, done: JobDone): void {
  to.set(done.to)
  for (const [i, error] of done.errors) scope.because(i, error)
  const { starts, ends, bytes, several } = done
  if (bytes.length === 0) return
  const lines = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  for (const i of several) {
    scope.replaceByLines(i, lines, starts[i], ends[i])
    ends[i] = 0
  }
  const texts = batch.textsToChange()
  const at = texts.reserve(bytes.length - 1, 0)
  texts.bytes.set(bytes, at)
  texts.end(at + bytes.length - 1)
  for (let i = 0; i < batch.length; i++) if (ends[i] !== 0) batch.setText(i, at + starts[i]!, at + ends[i]!)
}
