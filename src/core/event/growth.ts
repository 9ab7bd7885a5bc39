/** An event may grow by this many bytes. An event that is larger than this may grow to twice its size. */
const MOST_GROWTH = 1024 * 1024
/** If events grow by more than this factor and more than LITTLE_GROWTH bytes, their total size per batch is limited. */
const MUCH_GROWTH = 16
const LITTLE_GROWTH = 1024

/** Returns the maximum size to which an event of `size` bytes may grow. */
export function mostOf(size: number): number {
  return size + Math.max(MOST_GROWTH, size)
}

/** Maximum total size of the events that replace one event. Each may repeat the fields of the replaced event. */
const MOST_TOGETHER = 16 * 1024 * 1024

/** Limits the output of a processor, since a few lines could otherwise fill the memory. */
export class Growth {
  readonly #roomMiB: number
  #room = 0

  /** `roomMiB`: maximum total size, per batch, of events that grow much. */
  constructor(roomMiB: number) {
    this.#roomMiB = roomMiB
  }

  begin(): void {
    this.#room = this.#roomMiB * 1024 * 1024
  }

  /** Returns why an event of `size` bytes cannot grow to `grown` bytes; undefined if it can. */
  refuse(size: number, grown: number): string | undefined {
    if (grown <= size + LITTLE_GROWTH) return undefined
    if (grown > mostOf(size)) return 'it would grow by more than 1 MiB and to more than twice its size'
    return this.#take(size, grown)
  }

  /** Returns why events of `grown` bytes in total cannot replace an event of `size` bytes; undefined if they can. */
  refuseSeveral(size: number, grown: number): string | undefined {
    if (grown > MOST_TOGETHER) return 'the events made from it would have more than 16 MiB together'
    return grown <= size + LITTLE_GROWTH ? undefined : this.#take(size, grown)
  }

  /** Returns the maximum output size for a batch of `events` events with `bytes` bytes. */
  mostOfBatch(events: number, bytes: number): number {
    return bytes * MUCH_GROWTH + events * LITTLE_GROWTH + this.#roomMiB * 1024 * 1024
  }

  #take(size: number, grown: number): string | undefined {
    if (grown <= size * MUCH_GROWTH) return undefined
    if (grown > this.#room) {
      return `it and other events read with it would grow to more than ${this.#roomMiB} MiB together`
    }
    this.#room -= grown
    return undefined
  }
}
