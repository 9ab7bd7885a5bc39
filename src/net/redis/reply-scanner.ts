import { CR, isDigit, LF, ZERO } from '../../lib/formats/ascii.js'

const [TEXT, ERROR, INTEGER, STRING, ARRAY] = Buffer.from('+-:$*')
/** Maximum items of all arrays of a reply. The slots of a large Redis Cluster have a quarter of this. */
const MOST_ITEMS = 1_000_000
const MOST_LEVELS = 16
/** Maximum bytes of a text, and of a number or length, with the type and the line end. */
const LONGEST_LINE = 8 * 1024
const LONGEST_NUMBER = 23
const LONGEST_LENGTH = 12

const NULL = Buffer.from('-1\r\n')
const NOTHING = Buffer.alloc(0)

/**
 * Checks the replies of a server before the client decodes them (RESP2). The client allocates the items that an array
 * announces, and accepts replies of any size, type and nesting.
 */
export class ReplyScanner {
  readonly #mostBytes: number
  /** The received part of a line. */
  #line: Buffer = NOTHING
  /** Bytes of the current string that have not been received, with its line end. */
  #left = 0
  /** For each open array, how many of its items have not ended. */
  readonly #open: number[] = []
  /** Bytes and items that the current reply has received or announced. */
  #bytes = 0
  #items = 0

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** Throws if the client must not get this part of the replies. */
  take(chunk: Buffer): void {
    for (let p = 0; p < chunk.length; ) {
      const taken = Math.min(this.#left, chunk.length - p)
      this.#left -= taken
      p += taken
      if (p === chunk.length) return
      const end = chunk.indexOf(LF, p) + 1
      const part = chunk.subarray(p, end || chunk.length)
      const line = this.#line.length === 0 ? part : Buffer.concat([this.#line, part])
      if (line.length > LONGEST_LINE) throw tooLarge('line')
      this.#line = end === 0 ? line : NOTHING
      if (end === 0) return
      p = end
      this.#value(line)
    }
  }

  #value(line: Buffer): void {
    const type = line[0]
    const isHead = type === STRING || type === ARRAY
    if (line.indexOf(CR) !== line.length - 2 || !(isHead || type === TEXT || type === ERROR || type === INTEGER))
      throw new Error('the server does not speak the protocol of Redis (RESP2)')
    if (type === INTEGER && line.length > LONGEST_NUMBER) throw tooLarge('number')
    const length = isHead ? lengthIn(line) : 0
    this.#bytes += line.length
    if (type === STRING && length >= 0) this.#bytes += this.#left = length + 2
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

/** The length in the first line of a string or array; -1: it is null. */
function lengthIn(line: Buffer): number {
  if (line.length === NULL.length + 1 && line.compare(NULL, 0, NULL.length, 1) === 0) return -1
  let length = line.length > 3 && line.length <= LONGEST_LENGTH ? 0 : Number.NaN
  for (let p = 1; p < line.length - 2; p++) length = isDigit(line[p]!) ? length * 10 + line[p]! - ZERO : Number.NaN
  if (Number.isNaN(length)) throw tooLarge('length')
  return length
}

const tooLarge = (what: string) => new Error(`the server sent a ${what} that no request can cause`)
