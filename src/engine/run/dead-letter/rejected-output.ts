import type { DeliveryError } from '../../../core/errors.js'
import { Ack } from '../../../core/event/ack.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Origin } from '../../../core/event/origin.js'
import type { Clock } from '../../../lib/time.js'
import type { DeadLetters } from '../../flow/dead-letters.js'
import type { FanOut } from '../../flow/fan-out.js'
import { lineBatch } from '../../flow/made-batch.js'
import { encodeLetters } from './record.js'

/**
 * The side output of a destination for rejected events. Each event is passed on as a dead-letter record in JSON, with
 * fields such as reason, status, request_id and event. It counts as safe when every reader of the output has accepted
 * it.
 */
export class RejectedOutput implements DeadLetters {
  readonly #fanOut: FanOut
  readonly #origin: Origin
  readonly #clock: Clock

  constructor(fanOut: FanOut, origin: Origin, clock: Clock) {
    this.#fanOut = fanOut
    this.#origin = origin
    this.#clock = clock
  }

  write(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    const wall = this.#clock.wall()
    const bytes = encodeLetters(request, error, { destination: this.#origin.source, wall })
    if (bytes.length === 0) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const ack = new Ack(status => {
        if (status === 'errored') reject(new Error('those who read the rejected events did not take them'))
        else resolve()
      })
      // No need to wait for room: the next request that is refused waits for its own answer.
      void this.#fanOut.write(lineBatch(bytes, this.#origin, wall, ack))
    })
  }
}
