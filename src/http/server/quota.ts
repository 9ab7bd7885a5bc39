import { overloaded, type Refusal } from './refusal.js'

/** Whose request it is, and how it is refused while its body comes in. */
export interface Asking {
  /** Senders are told apart by this. */
  readonly sender: unknown
  refuse(refusal: Refusal): void
}

/** A request takes so much besides its body. */
const REQUEST_BYTES = 4096
/** A sender with several requests may hold so many times what is left, so that something is left for others. */
const TIMES_WHAT_IS_LEFT = 3

interface Held {
  readonly sender: Sender
  readonly refuse: Asking['refuse'] | undefined
  bytes: number
  /** Whether its body comes in, and it can still be refused. */
  receiving: boolean
}

/** What the requests of one sender hold together. */
class Sender {
  bytes = 0
  readonly held = new Set<Held>()

  /** Of incomplete bodies. */
  get receiving(): number {
    let bytes = 0
    for (const one of this.held) if (one.receiving) bytes += one.bytes + REQUEST_BYTES
    return bytes
  }
}

/**
 * Bounds what all requests that are not answered yet hold together. Where there is no room for another one, the sender
 * whose incomplete bodies hold the most gives up the largest, unless it is the one that asks: whoever sends slowly, or
 * never sends the end, must not keep others out. Nor must whoever sends more than can be delivered: several requests of
 * one sender leave something for others.
 */
export class Quota {
  requests = 0
  bytes = 0
  readonly #maxRequests: number
  readonly #maxBytes: number
  readonly #maxOfSender: number
  readonly #senders = new Map<unknown, Sender>()

  /** `maxOfSender`: requests of one sender at a time. */
  constructor(maxRequests: number, maxBytes: number, maxOfSender = maxRequests) {
    this.#maxRequests = maxRequests
    this.#maxBytes = maxBytes
    this.#maxOfSender = maxOfSender
  }

  /** The share of one request; throws a Refusal when there are too many. Give it back with `release`. */
  lease(asking?: Asking): Lease {
    // Requests of nobody in particular have nothing to do with each other.
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
    // It was refused to make room.
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

  /** Throws a Refusal when nobody can make room for `more` bytes of a sender. */
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
  /** The request holds so many bytes by now; throws a Refusal when that is more than there is room for. */
  hold(bytes: number): void
  /** The body is there: nobody can refuse the request any more. */
  received(): void
  /** To be called once. */
  release(): void
}
