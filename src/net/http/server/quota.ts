import { overloaded, type Refusal } from './refusal.js'

/** The sender of a request, and how to refuse the request while its body arrives. */
export interface Asking {
  readonly sender: unknown
  refuse(refusal: Refusal): void
}

/** Bytes that a request takes in addition to its body. */
const REQUEST_BYTES = 4096
/** A sender with several requests may hold at most this many times the memory that remains for others. */
const TIMES_WHAT_IS_LEFT = 3

interface Held {
  readonly sender: Sender
  readonly refuse: Asking['refuse'] | undefined
  bytes: number
  /** Whether the body is still arriving. Only then can the request be refused. */
  receiving: boolean
}

class Sender {
  bytes = 0
  readonly held = new Set<Held>()

  /** Bytes held for incomplete bodies. */
  get receiving(): number {
    let bytes = 0
    for (const one of this.held) if (one.receiving) bytes += one.bytes + REQUEST_BYTES
    return bytes
  }
}

/**
 * Limits the memory of all unanswered requests together. If a request needs more than remains, the sender with the most
 * memory in incomplete bodies loses the largest of these bodies. But if this is the request's own sender, the request
 * is refused. Slow senders thus cannot exclude others. A sender with several requests must leave room for others.
 */
export class RequestMemory {
  requests = 0
  bytes = 0
  readonly #maxRequests: number
  readonly #maxBytes: number
  readonly #maxOfSender: number
  readonly #senders = new Map<unknown, Sender>()

  /** `maxOfSender`: limit of concurrent requests of one sender. */
  constructor(maxRequests: number, maxBytes: number, maxOfSender = maxRequests) {
    this.#maxRequests = maxRequests
    this.#maxBytes = maxBytes
    this.#maxOfSender = maxOfSender
  }

  /** Reserves one request's share. Throws a Refusal for too many requests. Call `release` when the request ends. */
  lease(asking?: Asking): Lease {
    // Each request without a known sender gets a sender of its own.
    const name = asking?.sender ?? {}
    const sender = this.#senders.get(name) ?? new Sender()
    const held: Held = { sender, refuse: asking?.refuse, bytes: 0, receiving: asking !== undefined }
    if (sender.held.size >= this.#maxOfSender) throw overloaded()
    while (this.requests >= this.#maxRequests || this.bytes >= this.#maxBytes) this.#makeRoom(sender, REQUEST_BYTES)
    this.#senders.set(name, sender)
    sender.held.add(held)
    this.requests++
    return {
      hold: bytes => this.#hold(held, bytes),
      received: () => {
        held.receiving = false
      },
      release: () => {
        this.#release(held)
        if (sender.held.size === 0 && this.#senders.get(name) === sender) this.#senders.delete(name)
      },
    }
  }

  #hold(held: Held, bytes: number): void {
    const { sender } = held
    // This request was already refused, to make room for another request.
    if (!sender.held.has(held)) throw overloaded()
    const more = bytes - held.bytes
    if (more > 0) {
      while (this.bytes + more > this.#maxBytes) this.#makeRoom(sender, more)
      const left = this.#maxBytes - this.bytes - more
      if (sender.held.size > 1 && sender.bytes + more > TIMES_WHAT_IS_LEFT * left) throw overloaded()
    }
    this.#add(held, more)
  }

  #add(held: Held, bytes: number): void {
    this.bytes += bytes
    held.sender.bytes += bytes
    held.bytes += bytes
  }

  #release(held: Held): void {
    if (!held.sender.held.delete(held)) return
    this.requests--
    this.#add(held, -held.bytes)
  }

  /** Makes room for `more` bytes of a sender. Throws a Refusal if that is not possible. */
  #makeRoom(asking: Sender, more: number): void {
    let heaviest = asking
    let most = asking.receiving + more
    for (const sender of this.#senders.values()) {
      const { receiving } = sender
      if (receiving > most) [heaviest, most] = [sender, receiving]
    }
    if (heaviest === asking) throw overloaded()
    const [largest] = [...heaviest.held].filter(one => one.receiving).sort((one, other) => other.bytes - one.bytes)
    this.#release(largest!)
    largest!.refuse!(overloaded())
  }
}

export interface Lease {
  /** Sets the bytes that the request holds; throws a Refusal if there is no room. */
  hold(bytes: number): void
  /** Call it when the body is complete. The request can then no longer be refused. */
  received(): void
  /** Must be called once. */
  release(): void
}
