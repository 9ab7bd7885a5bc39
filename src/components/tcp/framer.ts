import { findLinesInKernel } from '../../lib/kernel/find-lines.js'
import { type FramedSplitter, FramingError } from '../../lib/lines/framed-splitter.js'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { LineSplitter } from '../../lib/lines/line-splitter.js'
import { type Framer, OctetSplitter } from './octet-splitter.js'

const LF = 0x0a

export type FramingMode = 'newline' | 'octet_counted' | 'auto'

export interface FramerOptions {
  readonly framing: FramingMode
  readonly maxLineBytes: number
  /** Whether a null byte also ends a message. The null byte becomes a line end. */
  readonly endsWithNull: boolean
  /** May change, in place, the bytes of a message with a length prefix. A line end begins at `end`. */
  readonly tidy: ((chunk: Buffer, start: number, end: number) => void) | undefined
}

export function framerOf(options: FramerOptions): Framer {
  const { framing, maxLineBytes, endsWithNull, tidy } = options
  if (framing === 'octet_counted') return new OctetSplitter(maxLineBytes, tidy)
  if (framing === 'auto') return new AutoFramer(options)
  return new (endsWithNull ? NullFramer : LineFramer)(maxLineBytes, false, findLinesInKernel)
}

class LineFramer extends LineSplitter implements Framer {
  readonly broken = 0
  override mayBeMarked = true
}

class NullFramer extends LineFramer {
  override push(bytes: Buffer, room?: number): Frame | undefined {
    for (let p = bytes.indexOf(0); p >= 0; p = bytes.indexOf(0, p + 1)) bytes[p] = LF
    return super.push(bytes, room)
  }
}

/** Divides the bytes of a connection into the records of a codec. An unfinished record is not delivered. */
export class RecordFramer implements Framer {
  readonly pieces = 0
  readonly #splitter: FramedSplitter
  cutOff: FramingError | undefined
  #isOver = false

  constructor(splitter: FramedSplitter) {
    this.#splitter = splitter
  }

  get broken(): number {
    return this.problem || this.cutOff ? 1 : 0
  }

  get pending(): number {
    return this.#isOver ? 0 : this.#splitter.pending
  }

  get problem(): Error | undefined {
    return this.#splitter.problem
  }

  push(bytes: Buffer, room?: number): Frame | undefined {
    return this.#splitter.push(bytes, room)
  }

  flush(over = false): undefined {
    const { pending, place, problem } = this.#splitter
    if (!over) this.#splitter.skip()
    else if (pending > 0 && !problem) {
      this.cutOff = new FramingError(
        `byte ${place}: the last record is incomplete: it ended after ${pending} bytes`,
        place,
      )
    }
    this.#isOver = over
  }

  release(): void {
    if (!this.problem) this.#splitter.release()
  }

  drop(): void {
    this.#splitter.drop()
  }
}

/** Matches the beginning of a syslog message with a length prefix: the length, a space, and the `<` of the priority. */
const COUNTED = /^[1-9]\d{0,8} </
const MAYBE_COUNTED = /^[1-9]\d{0,8} ?$/
const LONGEST_PREFIX = 11

/** Determines the framing of all messages from the first bytes of the connection. */
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

  push(bytes: Buffer, room?: number): Frame | undefined {
    if (this.#framer) return this.#framer.push(bytes, room)
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
    // If the bytes so far could be an unfinished length, they are delivered as a line.
    if (!this.#framer && this.#first.length > 0) this.#decide(false)
    return this.#framer?.flush(over)
  }

  release(): void {
    this.#framer?.release()
  }

  drop(): void {
    this.#first = Buffer.alloc(0)
    this.#framer?.drop()
  }
}
