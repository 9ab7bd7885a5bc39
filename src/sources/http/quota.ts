import { overloaded, type Refusal } from './refusal.js'

/** The request of a sender while its body comes in: it can still be refused. */
export interface Receiving {
  /** Senders are told apart by this. */
  readonly sender: string
  refuse(refusal: Refusal): void
}

/** A request takes so much besides its body. */
const REQUEST_BYTES = 4096

interface Held {
  bytes: number
  /** Undefined: the body is there, or nobody may refuse it. */
  receiving: Receiving | undefined
}

/**
 * Bounds what all requests that are not answered yet hold together. Where there is no room for another one, the sender
 * whose incomplete bodies hold the most gives them up, the largest first, unless it is the one that asks: whoever sends
 * slowly, or never sends the end, must not keep others out.
 */
export class Quota {
  bytes = 0
  readonly #held = new Set<Held>()
  readonly #maxRequests: number
  readonly #maxBytes: number

  constructor(maxRequests: number, maxBytes: number) {
    this.#maxRequests = maxRequests
    this.#maxBytes = maxBytes
  }

  get requests(): number {
    return this.#held.size
  }

  /** The share of one request; throws a Refusal when there are too many. Give it back with `release`. */
  lease(receiving?: Receiving): Lease {
    const held: Held = { bytes: 0, receiving }
    while (this.requests >= this.#maxRequests || this.bytes >= this.#maxBytes) this.#makeRoom(held, 1)
    this.#held.add(held)
    return {
      hold: bytes => {
        if (!this.#held.has(held)) throw overloaded()
        const more = bytes - held.bytes
        while (more > 0 && this.bytes + more > this.#maxBytes) this.#makeRoom(held, more)
        this.bytes += more
        held.bytes = bytes
      },
      received: () => {
        held.receiving = undefined
      },
      release: () => this.#release(held),
    }
  }

  #release(held: Held): void {
    if (this.#held.delete(held)) this.bytes -= held.bytes
  }

  /** Throws a Refusal when nobody can make room. */
  #makeRoom(by: Held, more: number): void {
    const asking = by.receiving?.sender ?? ''
    const bytes = new Map([[asking, more + (this.#held.has(by) ? 0 : REQUEST_BYTES)]])
    for (const { receiving, bytes: own } of this.#held) {
      if (receiving) bytes.set(receiving.sender, (bytes.get(receiving.sender) ?? 0) + own + REQUEST_BYTES)
    }
    const [[heaviest] = [asking]] = [...bytes].sort(([, one], [, other]) => other - one)
    if (heaviest === asking) throw overloaded()
    const [largest] = [...this.#held]
      .filter(({ receiving }) => receiving?.sender === heaviest)
      .sort((one, other) => other.bytes - one.bytes)
    const { receiving } = largest!
    this.#release(largest!)
    receiving!.refuse(overloaded())
  }
}

export interface Lease {
  /** The request holds so many bytes by now; throws a Refusal when that is more than there is room for. */
  hold(bytes: number): void
  /** The body is there: nobody can refuse the request any more. */
  received(): void
  /** To be called once. */
  release(): void
}
