import { closeLater, readLater, unlessSilent } from '../../../lib/files/disk/disk.js'
import { createInflater, type Format, type Inflater, isOfContent } from '../compression.js'
import { FINGERPRINT_BYTES } from '../identity.js'

/** Number of compressed bytes that are read and inflated in one step. */
const FEED_BYTES = 8 * 1024
const PART_BYTES = 64 * 1024
/** Maximum number of files that are inflated at the same time, because each of them takes a descriptor and memory. */
const MAX_INFLATED = 16

const NOTHING = Buffer.alloc(0)

export class Slots {
  free = MAX_INFLATED
}

/**
 * The uncompressed bytes of a file with one or more gzip members or zstd frames, read from the beginning forward.
 * Invariants: calls do not overlap. Memory does not depend on the size of the file or of its content, because the
 * inflater pauses after each part. Every byte before damaged data is returned.
 */
export class Inflated {
  at = 0
  /**
   * Remaining work: bytes that may still be read or inflated. When it is zero, calls return the bytes read until then.
   */
  budget = 0
  get ended(): boolean {
    return this.#ended && this.#parts.length === 0
  }
  readonly #fd: number
  readonly #format: Format
  readonly #slots: Slots | undefined
  readonly #feed = Buffer.allocUnsafeSlow(FEED_BYTES)
  /** The last bytes that were taken from `#parts`, at the end of this buffer. */
  readonly #window = Buffer.alloc(FINGERPRINT_BYTES)
  readonly #parts: Buffer[] = []
  #inflater: Inflater
  /** Where the members or frames that the inflater reads begin in the file. */
  #from = 0
  /** Where to look for another member or frame. Set when the inflater has ended before the file did. */
  #next: number | undefined
  /** Bytes read and not yet fed. Their offset in the file is `#fedTo` plus the number of bytes being inflated. */
  #input: Buffer = NOTHING
  #fedTo = 0
  /** Whether the inflater has not yet taken all input that was fed to it. */
  #isBusy = false
  /** Whether the inflater got all bytes of the file. */
  #isFed = false
  /** Bytes inflated since the inflater was created, and how many of them to skip because they repeat earlier output. */
  #made = 0
  #unwanted = 0
  /** From this offset on, input is fed byte by byte, to get all output before damaged data. */
  #singlyFrom = Number.POSITIVE_INFINITY
  #ended = false
  #damage: Error | undefined
  #error: Error | undefined
  /** Called when there is output, or when the inflater needs input, fails or ends. */
  #done: () => void = () => {}

  /** Takes ownership of the open file, which occupies one of the `slots` until it is closed. */
  constructor(fd: number, format: Format, slots?: Slots) {
    this.#fd = fd
    this.#format = format
    this.#slots = slots
    if (slots) slots.free--
    this.#inflater = this.#begin()
  }

  /** The error that comes after the bytes taken so far. Undefined if more bytes or the end of the content come next. */
  get damage(): Error | undefined {
    return this.#parts.length === 0 ? this.#damage : undefined
  }

  #begin(from = 0): Inflater {
    const inflater = createInflater(this.#format, PART_BYTES)
    this.#from = from
    this.#next = undefined
    this.#made = 0
    this.#fedTo = from
    this.#input = NOTHING
    this.#isFed = false
    this.#isBusy = false
    this.#error = undefined
    inflater.on('data', (part: Buffer) => {
      const unwanted = Math.min(part.length, Math.max(0, this.#unwanted - this.#made))
      this.#made += part.length
      this.budget -= part.length
      if (unwanted < part.length) this.#parts.push(part.subarray(unwanted))
      inflater.pause()
      this.#done()
    })
    inflater.on('error', error => {
      this.#error = error
      this.#done()
    })
    // Also emitted before padding, and by zstd before all bytes that begin no frame of content.
    inflater.on('end', () => {
      if (this.#isFed) this.#ended = true
      else this.#next = from + inflater.bytesWritten
      this.#done()
    })
    return inflater
  }

  /** Fills `room` and returns the number of bytes. Stops at the end, at damage, or when the budget is used up. */
  async read(room: Buffer): Promise<number> {
    let length = 0
    while (length < room.length && (await this.#more())) {
      length += this.#take(this.#parts[0]!.copy(room, length))
    }
    return length
  }

  /** Skips to offset `to`. May stop before it for the same reasons as `read`. */
  async skip(to: number): Promise<void> {
    while (this.at < to && (await this.#more())) this.#take(Math.min(to - this.at, this.#parts[0]!.length))
  }

  /** Fills `room` with the last bytes that were taken. `room` has at most FINGERPRINT_BYTES. */
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

  async #step(): Promise<void> {
    const singly = this.#fedTo >= this.#singlyFrom
    try {
      if (this.#next !== undefined) await this.#goOn(this.#next)
      else if (this.#isBusy || this.#inflater.readableLength > 0) await this.#until(() => this.#inflater.resume())
      else {
        if (this.#input.length === 0) await this.#fill()
        await this.#feedNext(singly)
      }
      if (this.#error) throw this.#error
    } catch (error) {
      unlessSilent(error)
      if (singly || (error as NodeJS.ErrnoException).code === 'Z_BUF_ERROR' || !isOfContent(error)) {
        this.#damage = error as Error
        return
      }
      this.#singlyFrom = this.#fedTo
      this.#unwanted = this.#made
      this.#inflater.destroy()
      this.#inflater = this.#begin(this.#from)
    }
  }

  /** Skips padding. Inflates what follows, which is another member or frame, or damage. */
  async #goOn(at: number): Promise<void> {
    const length = await readLater(this.#fd, this.#feed, at)
    this.budget -= length
    const padding = this.#feed.subarray(0, length).findIndex(byte => byte !== 0)
    if (length === 0) this.#ended = true
    else if (padding === -1) this.#next = at + length
    else {
      this.#inflater.destroy()
      this.#unwanted = 0
      this.#inflater = this.#begin(at + padding)
    }
  }

  async #fill(): Promise<void> {
    const left = this.#singlyFrom - this.#fedTo
    const room = this.#feed.subarray(0, left > 0 ? Math.min(FEED_BYTES, left) : FEED_BYTES)
    this.#input = room.subarray(0, await readLater(this.#fd, room, this.#fedTo))
    this.budget -= this.#input.length
  }

  #feedNext(singly: boolean): Promise<void> {
    const bytes = singly ? this.#input.subarray(0, 1) : this.#input
    this.#input = this.#input.subarray(bytes.length)
    this.#isBusy = true
    const inflater = this.#inflater.resume()
    if (bytes.length === 0) {
      this.#isFed = true
      return this.#until(() => inflater.end())
    }
    const onTaken = () => {
      if (inflater !== this.#inflater) return
      this.#isBusy = false
      this.#fedTo += bytes.length
      this.#done()
    }
    return this.#until(() => inflater.write(bytes, () => setImmediate(onTaken)))
  }

  /** Calls `call`, and resolves when the inflater then has output, needs input, fails or ends. */
  #until(call: () => void): Promise<void> {
    return new Promise(resolve => {
      this.#done = resolve
      if (this.#error) resolve()
      else call()
    })
  }

  /** Call only when no other call is in progress. */
  close(): void {
    if (this.#slots) this.#slots.free++
    this.#inflater.destroy()
    closeLater(this.#fd)
  }
}
