import { overloaded } from './refusal.js'

/** Bounds what all requests that are not answered yet hold together. */
export class Quota {
  requests = 0
  bytes = 0
  readonly #maxRequests: number
  readonly #maxBytes: number

  constructor(maxRequests: number, maxBytes: number) {
    this.#maxRequests = maxRequests
    this.#maxBytes = maxBytes
  }

  /** The share of one request; throws a Refusal when there are too many. Give it back with `release`. */
  lease(): Lease {
    if (this.requests >= this.#maxRequests || this.bytes >= this.#maxBytes) throw overloaded()
    this.requests++
    let held = 0
    return {
      hold: bytes => {
        if (bytes > held && this.bytes + bytes - held > this.#maxBytes) throw overloaded()
        this.bytes += bytes - held
        held = bytes
      },
      release: () => {
        this.bytes -= held
        this.requests--
      },
    }
  }
}

export interface Lease {
  /** The request holds so many bytes by now; throws a Refusal when that is more than there is room for. */
  hold(bytes: number): void
  /** To be called once. */
  release(): void
}
