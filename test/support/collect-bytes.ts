import { Writable } from 'node:stream'
import { encodeLines } from '../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../src/core/codecs/json.js'
import type { EventBatch } from '../../src/core/event/batch.js'

/** Notes the lines that events are sent as, down to the byte. */
export function collectBytes(into: string[]): Writable {
  return new Writable({
    objectMode: true,
    write(batch: EventBatch, _encoding, done) {
      const lines = Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts).toString()
      into.push(...lines.split('\n').slice(0, -1))
      batch.ack.settle('delivered')
      done()
    },
  })
}
