/** An event may become twice as long, or so much longer. */
const MOST_GROWTH = 1024 * 1024
/** Events that grow to more than so many times their size, and by more than this, share the room of a batch. */
const MUCH_GROWTH = 16
const LITTLE_GROWTH = 1024

/** The size that an event of `size` bytes may grow to. */
export function mostOf(size: number): number {
  return size + Math.max(MOST_GROWTH, size)
}

/** What the events that take the place of one may take together, since each may repeat fields of it. */
const MOST_TOGETHER = 16 * 1024 * 1024

/** Bounds what a processor makes of events, so that a few lines cannot fill the memory. */
export class Growth {
  readonly #roomMiB: number
  #room = 0

  /** `roomMiB`: what the events of a batch that grow much may take together. */
  constructor(roomMiB: number) {
    this.#roomMiB = roomMiB
  }

  /** Begins with a batch. */
  begin(): void {
    this.#room = this.#roomMiB * 1024 * 1024
  }

  /** Why an event of `size` bytes cannot become one of `grown`; undefined: it can. */
  refuse(size: number, grown: number): string | undefined {
    if (grown <= size + LITTLE_GROWTH) return undefined
    if (grown > mostOf(size)) return 'it would be more than 1 MiB longer, and more than twice as long'
    return this.#take(size, grown)
  }

  /** Why events of `grown` bytes together cannot take the place of one of `size` bytes; undefined: they can. */
  refuseSeveral(size: number, grown: number): string | undefined {
    if (grown > MOST_TOGETHER) return 'it would become events of more than 16 MiB together'
    return grown <= size + LITTLE_GROWTH ? undefined : this.#take(size, grown)
  }

  /** What a batch of `events` of `bytes` may become at most. */
  mostOfBatch(events: number, bytes: number): number {
    return bytes * MUCH_GROWTH + events * LITTLE_GROWTH + this.#roomMiB * 1024 * 1024
  }

  #take(size: number, grown: number): string | undefined {
    if (grown <= size * MUCH_GROWTH) return undefined
    if (grown > this.#room) {
      return `it and others read with it would become events of more than ${this.#roomMiB} MiB together`
    }
    this.#room -= grown
    return undefined
  }
}
