import type { Frame } from '../../lib/lines/line-splitter.js'
import { LineSplitter } from '../../lib/lines/line-splitter.js'
import { OctetSplitter } from './octet-splitter.js'

/** Finds the messages in the bytes of a connection. */
export interface Framer {
  /** Pieces that over-long messages were cut in so far, without the last ones. */
  readonly pieces: number
  /** Places where no message could be made out, or where one was cut off. */
  readonly broken: number
  /** Bytes of the unfinished message. */
  readonly pending: number
  /** The messages that `bytes` complete, if any. */
  push(bytes: Buffer): Frame | undefined
  /** The unfinished message as it is. What follows later continues it; `over`: nothing will. */
  flush(over?: boolean): Frame | undefined
  /** Lets go of memory while nothing comes. */
  release(): void
}

export type Framing = 'newline' | 'octet_counted' | 'auto'

export interface FramerOptions {
  readonly framing: Framing
  readonly maxLineBytes: number
  /** May change the bytes of a message that was counted; its line end stands behind them. */
  readonly tidy: ((chunk: Buffer, start: number, end: number) => void) | undefined
}

export function framerOf(options: FramerOptions): Framer {
  const { framing, maxLineBytes, tidy } = options
  if (framing === 'octet_counted') return new OctetSplitter(maxLineBytes, tidy)
  return framing === 'newline' ? new NewlineFramer(maxLineBytes) : new AutoFramer(options)
}

class NewlineFramer extends LineSplitter implements Framer {
  readonly broken = 0
}

/** What syslog begins with where messages are counted: a length, a space and a priority. */
const COUNTED = /^[1-9]\d{0,8} </
const MAYBE_COUNTED = /^[1-9]\d{0,8} ?$/
const LONGEST_PREFIX = 11

/** Decides by the first bytes of the connection how all of its messages are framed. */
class AutoFramer implements Framer {
  readonly #options: FramerOptions
  #framer: Framer | undefined
  #first: Buffer = Buffer.alloc(0)

  constructor(options: FramerOptions) {
    this.#options = options
  }

  get pieces(): number {
    return this.#framer?.pieces ?? 0
  }

  get broken(): number {
    return this.#framer?.broken ?? 0
  }

  get pending(): number {
    return this.#framer?.pending ?? this.#first.length
  }

  push(bytes: Buffer): Frame | undefined {
    if (this.#framer) return this.#framer.push(bytes)
    const first = Buffer.concat([this.#first, bytes])
    this.#first = first
    const prefix = first.toString('latin1', 0, LONGEST_PREFIX)
    return MAYBE_COUNTED.test(prefix) ? undefined : this.#decide(COUNTED.test(prefix))
  }

  #decide(counted: boolean): Frame | undefined {
    const first = this.#first
    this.#first = Buffer.alloc(0)
    this.#framer = framerOf({ ...this.#options, framing: counted ? 'octet_counted' : 'newline' })
    return this.#framer.push(first)
  }

  flush(over?: boolean): Frame | undefined {
    // Nothing but a number: it is a line.
    if (!this.#framer && this.#first.length > 0) this.#decide(false)
    return this.#framer?.flush(over)
  }

  release(): void {
    this.#framer?.release()
  }
}
