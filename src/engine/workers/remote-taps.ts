import { Ack } from '../../core/event/ack.js'
import { BatchDecoder } from '../../flow/disk-buffer/batch-record.js'
import type { Tap } from '../../flow/fan-out.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import type { ToWorker } from './messages.js'

/** Taps on outputs that stay within a worker thread, which sends copies of their batches. */
export class RemoteTaps {
  readonly #post: (message: ToWorker) => void
  readonly #decoder: BatchDecoder
  readonly #taps = new Map<string, Set<Tap>>()

  constructor(wanted: WantedNames, post: (message: ToWorker) => void) {
    this.#decoder = new BatchDecoder(wanted)
    this.#post = post
  }

  /** Shows every batch of an output to `tap` until the result is called. */
  add(output: string, tap: Tap): () => void {
    const known = this.#taps.get(output)
    const taps = known ?? new Set()
    taps.add(tap)
    if (!known) {
      this.#taps.set(output, taps)
      this.#post({ type: 'tap', output, on: true })
    }
    return () => {
      taps.delete(tap)
      if (taps.size > 0 || this.#taps.get(output) !== taps) return
      this.#taps.delete(output)
      this.#post({ type: 'tap', output, on: false })
    }
  }

  /** Another part runs, or the same one on a new thread. */
  renew(): void {
    for (const output of this.#taps.keys()) this.#post({ type: 'tap', output, on: true })
  }

  receive(output: string, record: ArrayBuffer): void {
    const batch = this.#decoder.decode(Buffer.from(record), new Ack(() => {}))
    for (const tap of this.#taps.get(output) ?? []) tap(batch)
    this.#post({ type: 'tapped', output })
  }
}
