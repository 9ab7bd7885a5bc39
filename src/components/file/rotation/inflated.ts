import { createGunzip, type Gunzip } from 'node:zlib'
import { closeLater, readLater, unlessSilent } from '../../../lib/files/disk/disk.js'
import { FINGERPRINT_BYTES } from '../identity.js'

/** Compressed bytes per step. They inflate to at most a thousand times as many, which limits memory. */
const FEED_BYTES = 8 * 1024
const PART_BYTES = 64 * 1024
/** Maximum number of files inflated at the same time, each of which takes a descriptor and memory. */
const MAX_INFLATED = 16

export class Slots {
  free = MAX_INFLATED
}

/**
 * The uncompressed bytes of a gzip file with one or more members, from the beginning forward. Invariants: calls do not
 * overlap. Memory does not depend on the sizes of the file or its content. Every byte before damaged data is returned.
 */
export class Inflated {
  /** Number of bytes taken. */
  at = 0
  /** Remaining work in bytes, in and out. At zero, calls return with what they have. */
  budget = 0
  /** Whether everything was taken. */
  get ended(): boolean {
    return this.#ended && this.#parts.length === 0
  }
  readonly #fd: number
  readonly #slots: Slots | undefined
  readonly #feed = Buffer.allocUnsafeSlow(FEED_BYTES)
  /** The last bytes taken, at the end of the buffer. */
  readonly #window = Buffer.alloc(FINGERPRINT_BYTES)
  readonly #parts: Buffer[] = []
  #gunzip: Gunzip
  #fedTo = 0
  /** Bytes inflated so far, and how many of them were already returned before a restart. */
  #made = 0
  #unwanted = 0
  /** From this offset on, input is fed byte by byte, to get all output before damaged data. */
  #singlyFrom = Number.POSITIVE_INFINITY
  #ended = false
  #damage: Error | undefined
  /** Called when inflating fails or ends, for callers that wait for inflated bytes. */
  #done: () => void = () => {}
  #fail: (error: Error) => void = () => {}

  /** Takes ownership of the open file. `slots`: until it is closed, it takes one of them. */
  constructor(fd: number, slots?: Slots) {
    this.#fd = fd
    this.#slots = slots
    if (slots) slots.free--
    this.#gunzip = this.#begin()
  }

  /** The error after the bytes taken, unless they are the end. */
  get damage(): Error | undefined {
    return this.#parts.length === 0 ? this.#damage : undefined
  }

  #begin(): Gunzip {
    const gunzip = createGunzip({ chunkSize: PART_BYTES })
    this.#made = 0
    this.#fedTo = 0
    gunzip.on('data', (part: Buffer) => {
      const unwanted = Math.min(part.length, Math.max(0, this.#unwanted - this.#made))
      this.#made += part.length
      this.budget -= part.length
      if (unwanted < part.length) this.#parts.push(part.subarray(unwanted))
    })
    gunzip.on('error', error => this.#fail(error))
    // Also emitted if only padding follows.
    gunzip.on('end', () => {
      this.#ended = true
      this.#done()
    })
    return gunzip
  }

  /** Fills `room` with the next bytes. Returns fewer if the budget is used up, or at the end or damaged data. */
  async read(room: Buffer): Promise<number> {
    let length = 0
    while (length < room.length && (await this.#more())) {
      length += this.#take(this.#parts[0]!.copy(room, length))
    }
    return length
  }

  /** Skips to offset `to`, or as far as `read` would get. */
  async skip(to: number): Promise<void> {
    while (this.at < to && (await this.#more())) this.#take(Math.min(to - this.at, this.#parts[0]!.length))
  }

  /** Fills `room`, of at most FINGERPRINT_BYTES, with the last bytes taken. */
  last(room: Buffer): void {
    this.#window.copy(room, 0, FINGERPRINT_BYTES - room.length)
  }

  #take(bytes: number): number {
    const part = this.#parts[0]!
    const kept = Math.min(bytes, FINGERPRINT_BYTES)
    this.#window.copy(this.#window, 0, kept)
    part.copy(this.#window, FINGERPRINT_BYTES - kept, bytes - kept, bytes)
    if (bytes === part.length) this.#parts.shift()
    else this.#parts[0] = part.subarray(bytes)
    this.at += bytes
    return bytes
  }

  async #more(): Promise<boolean> {
    while (this.#parts.length === 0) {
      if (this.#ended || this.#damage || this.budget <= 0) return false
      await this.#step()
    }
    return true
  }

  /** Feeds more input. */
  async #step(): Promise<void> {
    const singly = this.#fedTo >= this.#singlyFrom
    const want = Math.min(FEED_BYTES, singly ? FEED_BYTES : this.#singlyFrom - this.#fedTo)
    try {
      const length = await this.#fill(want)
      this.budget -= length
      if (length === 0) await this.#finish()
      else if (!singly) await this.#write(this.#feed.subarray(0, length))
      else for (let i = 0; i < length && !this.#ended; i++) await this.#write(this.#feed.subarray(i, i + 1))
      this.#fedTo += length
    } catch (error) {
      unlessSilent(error)
      if (singly || (error as NodeJS.ErrnoException).code === 'Z_BUF_ERROR' || !isOfZlib(error)) {
        this.#damage = error as Error
        return
      }
      this.#singlyFrom = this.#fedTo
      this.#unwanted = this.#made
      this.#gunzip.destroy()
      this.#gunzip = this.#begin()
    }
  }

  #fill(want: number): Promise<number> {
    return readLater(this.#fd, this.#feed.subarray(0, want), this.#fedTo)
  }

  /** Resolves when the output for these bytes is in #parts. */
  #write(bytes: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#done = resolve
      this.#fail = reject
      this.#gunzip.write(bytes, () => setImmediate(resolve))
    })
  }

  #finish(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#done = resolve
      this.#fail = reject
      this.#gunzip.end()
    })
  }

  /** Do not call during another call. */
  close(): void {
    if (this.#slots) this.#slots.free++
    this.#gunzip.destroy()
    closeLater(this.#fd)
  }
}

function isOfZlib(error: unknown): boolean {
  return String((error as NodeJS.ErrnoException).code).startsWith('Z_')
}
