import { createGunzip, type Gunzip } from 'node:zlib'
import { closeLater, readLater, unlessSilent } from '../../../lib/files/remote/guarded-fs.js'
import { FINGERPRINT_BYTES } from '../identity.js'

/** Compressed bytes fed at a time. They inflate to a thousand times as many at most: that is all there is in memory. */
const FEED_BYTES = 8 * 1024
const PART_BYTES = 64 * 1024

/**
 * The uncompressed bytes of a gzip file of one or more members, forward from its beginning. Invariants: one call is under
 * way at a time; what is in memory does not depend on the sizes of the file or of what is in it; every byte before a
 * damage is given out.
 */
export class Inflated {
  /** How many bytes were taken. */
  at = 0
  /** How much more work may be done, in bytes in and out. At zero calls return with what they have. */
  budget = 0
  /** Nothing comes behind what was taken. */
  get ended(): boolean {
    return this.#ended && this.#parts.length === 0
  }
  readonly #fd: number
  readonly #feed = Buffer.allocUnsafeSlow(FEED_BYTES)
  /** The last bytes taken end where this ends. */
  readonly #window = Buffer.alloc(FINGERPRINT_BYTES)
  readonly #parts: Buffer[] = []
  #gunzip: Gunzip
  #fedTo = 0
  /** Inflated so far, and how much of that was inflated before and is not wanted again. */
  #made = 0
  #unwanted = 0
  /** What is fed from here on goes byte by byte: what stands right before a damage comes out too. */
  #singlyFrom = Number.POSITIVE_INFINITY
  #ended = false
  #damage: Error | undefined
  /** Called when inflating fails or ends: whoever waits for inflated bytes has no callback of its own for that. */
  #done: () => void = () => {}
  #fail: (error: Error) => void = () => {}

  /** Takes over the open file. */
  constructor(fd: number) {
    this.#fd = fd
    this.#gunzip = this.#begin()
  }

  /** Why nothing comes behind what was taken, where that is not the end. */
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
    // At the end, and where nothing but padding follows.
    gunzip.on('end', () => {
      this.#ended = true
      this.#done()
    })
    return gunzip
  }

  /** Fills `room` with what comes next. Less: the budget is spent, or it is at the end or at a damage. */
  async read(room: Buffer): Promise<number> {
    let length = 0
    while (length < room.length && (await this.#more())) {
      length += this.#take(this.#parts[0]!.copy(room, length))
    }
    return length
  }

  /** Goes on to the offset `to`, or as far as `read` would. */
  async skip(to: number): Promise<void> {
    while (this.at < to && (await this.#more())) this.#take(Math.min(to - this.at, this.#parts[0]!.length))
  }

  /** Fills `room`, of FINGERPRINT_BYTES at most, with the last bytes that were taken. */
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

  /** Feeds some more bytes. */
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

  /** Resolves when what came of the bytes is in the parts. */
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

  /** Not while a call is under way. */
  close(): void {
    this.#gunzip.destroy()
    closeLater(this.#fd)
  }
}

function isOfZlib(error: unknown): boolean {
  return String((error as NodeJS.ErrnoException).code).startsWith('Z_')
}
