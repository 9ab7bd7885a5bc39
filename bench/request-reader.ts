/**
 * Reads requests of HTTP/1.1 from the bytes of a connection, without a copy of their bodies: the receiver of a
 * benchmark must take less time than what is measured.
 */

const CR_LF = '\r\n'
const HEAD_END = '\r\n\r\n'
const LF = 0x0a
const MOST_HEAD = 64 * 1024

export interface RequestHead {
  readonly method: string
  /** Whether the sender waits for a permission to send the body. */
  readonly expects: boolean
  /** Whether the connection ends with the answer. */
  readonly closes: boolean
}

/** Gets what is read, in order. */
export interface RequestTaker {
  head(head: RequestHead): void
  /** A part of the body: `bytes` from `from` to before `to`. */
  body(bytes: Buffer, from: number, to: number): void
  end(): void
}

export class RequestReader {
  readonly #taker: RequestTaker
  #state: 'head' | 'body' | 'size' | 'chunk' | 'trailer' = 'head'
  /** What there is of the head, or of a line between the chunks. */
  #text = ''
  /** Bytes of the body, or of the chunk, that are still to come. */
  #left = 0

  constructor(taker: RequestTaker) {
    this.#taker = taker
  }

  /** Reads the first `length` bytes. Throws if they are not HTTP. */
  read(bytes: Buffer, length: number): void {
    for (let at = 0; at < length; )
      at = this.#left > 0 ? this.#skip(bytes, at, length) : this.#readText(bytes, at, length)
  }

  #skip(bytes: Buffer, at: number, length: number): number {
    const to = Math.min(length, at + this.#left)
    this.#left -= to - at
    this.#taker.body(bytes, at, to)
    if (this.#left === 0 && this.#state === 'body') this.#end()
    return to
  }

  /** Adds a line, or a part of one, to what was read of it. */
  #readText(bytes: Buffer, at: number, length: number): number {
    const found = bytes.indexOf(LF, at)
    const to = found < 0 || found >= length ? length : found + 1
    this.#text += bytes.toString('latin1', at, to)
    if (this.#text.length > MOST_HEAD) throw new Error('the head of a request is too long')
    if (this.#text.endsWith(this.#state === 'head' ? HEAD_END : CR_LF)) this.#take()
    return to
  }

  #take(): void {
    const text = this.#text
    this.#text = ''
    if (this.#state === 'head') this.#begin(text)
    else if (this.#state === 'size') {
      this.#left = Number.parseInt(text, 16)
      if (Number.isNaN(this.#left)) throw new Error(`not the size of a chunk: ${text}`)
      this.#state = this.#left > 0 ? 'chunk' : 'trailer'
    } else if (this.#state === 'chunk') this.#state = 'size'
    else if (text === CR_LF) this.#end()
  }

  #begin(text: string): void {
    const [line, ...lines] = text.split(CR_LF)
    const headers = new Map(
      lines.map(header => {
        const colon = header.indexOf(':')
        return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()]
      }),
    )
    const [method, , version] = line!.split(' ')
    const connection = headers.get('connection')?.toLowerCase()
    const closes = connection === 'close' || (version === 'HTTP/1.0' && connection !== 'keep-alive')
    const expects = headers.get('expect')?.toLowerCase() === '100-continue'
    this.#taker.head({ method: method!, expects, closes })
    this.#left = Number(headers.get('content-length') ?? 0)
    if (headers.get('transfer-encoding')?.toLowerCase() === 'chunked') this.#state = 'size'
    else if (this.#left > 0) this.#state = 'body'
    else this.#end()
  }

  #end(): void {
    this.#state = 'head'
    this.#taker.end()
  }
}
