import { CR, isDigit, MINUS, ZERO } from '../../lib/formats/ascii.js'

const [TEXT, ERROR, INTEGER, STRING, ARRAY] = Buffer.from('+-:$*')
/** Maximum items of all arrays of a reply. The slots of a large Redis Cluster have a quarter of this. */
const MOST_ITEMS = 1_000_000
const MOST_LEVELS = 16
const LONGEST_TEXT = 8 * 1024
const LONGEST_NUMBER = 20
/** The value of `-1`, the length of a null, when each byte counts as a digit. */
const NULL = (MINUS - ZERO) * 10 + 1

/**
 * Checks the replies of a server before the client decodes them (RESP2). The client allocates the items that an array
 * announces, and accepts replies of any size, type and nesting.
 */
export class ReplyScanner {
  readonly #mostBytes: number
  /** The first byte of the current line; 0: the line has not begun. */
  #type = 0
  /** Bytes of the current line after the first, and their value. */
  #size = 0
  #value = 0
  /** Bytes to skip: the line feed of a line, and after it a string with its line end. */
  #left = 0
  /** For each open array, how many of its items have not ended. */
  readonly #open: number[] = []
  /** Bytes and items that the current reply has sent or announced. */
  #bytes = 0
  #items = 0

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** Throws if the client must not get this part of the replies. */
  take(chunk: Buffer): void {
    for (let p = 0; p < chunk.length; ) {
      if (this.#left === 0) this.#next(chunk[p++]!)
      else {
        const taken = Math.min(this.#left, chunk.length - p)
        this.#left -= taken
        p += taken
      }
    }
  }

  #next(byte: number): void {
    const isHead = this.#type === STRING || this.#type === ARRAY
    if (this.#type === 0) {
      if (byte !== STRING && byte !== ARRAY && byte !== TEXT && byte !== ERROR && byte !== INTEGER) throw foreign()
      this.#type = byte
      this.#size = this.#value = 0
    } else if (byte === CR) {
      // The client allocates an array before the line feed.
      this.#begin(this.#type, isHead ? this.#value : 0)
      this.#type = 0
    } else {
      if (isHead && !isDigit(byte) && (byte !== MINUS || this.#size > 0)) throw foreign()
      this.#value = this.#value * 10 + byte - ZERO
      if (++this.#size > (isHead || this.#type === INTEGER ? LONGEST_NUMBER : LONGEST_TEXT)) throw tooLarge('line')
    }
  }

  #begin(type: number, length: number): void {
    if (length < 0 && length !== NULL) throw foreign()
    this.#left = type === STRING && length >= 0 ? length + 3 : 1
    this.#bytes += this.#size + 2 + this.#left
    if (this.#bytes > this.#mostBytes) throw tooLarge('reply')
    if (type === ARRAY && length > 0) {
      this.#items += length
      if (this.#items > MOST_ITEMS || this.#open.push(length) > MOST_LEVELS) throw tooLarge('list')
      return
    }
    while (this.#open.length > 0 && --this.#open[this.#open.length - 1]! === 0) this.#open.pop()
    if (this.#open.length === 0) this.#bytes = this.#items = 0
  }
}

const foreign = () => new Error('the server does not speak the protocol of Redis (RESP2)')
const tooLarge = (what: string) => new Error(`the server sent a ${what} that no request can cause`)
