import type { Processor } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { EventJson } from '../../../core/event/event-json.js'
import { Growth } from '../../../core/event/growth.js'
import { type BatchScope, FAILED } from '../../../core/processor.js'
import type { FlattenOptions } from '../flatten.js'
import { Flattener } from './flattener.js'
import { Nester } from './nester.js'

const ROOM_MIB = 8

/** Writes the JSON of events anew. */
export class Flatten implements Processor {
  readonly #writer: Flattener | Nester
  readonly #json = new EventJson()
  readonly #growth = new Growth(ROOM_MIB)

  constructor({ mode, separator, arrays = 'keep', max_depth }: FlattenOptions) {
    this.#writer =
      mode === 'nest' ? new Nester(separator, max_depth) : new Flattener(separator, max_depth, arrays === 'index')
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    const json = this.#json
    this.#growth.begin()
    for (let i = 0; i < batch.length; i++) {
      json.read(batch, i)
      const written = this.#writer.write(json.bytes, json.start, json.end)
      if (!written) continue
      const problem = this.#growth.refuse(json.end - json.start, written.length)
      if (problem !== undefined) {
        to[i] = FAILED
        scope.because(i, problem)
      } else batch.changeTo(i, written.bytes.subarray(0, written.length), batch.bytes)
    }
  }
}
