import { errorText } from '../../core/errors.js'
import type { Fields } from '../../core/event/event.js'
import { discard, FAILED, MAIN, output } from '../../core/processor.js'
import { jsonText } from '../../lib/formats/json-text.js'
import type { JobDone } from './messages.js'

/** An event for one of the outputs of a script: what `context.to` returns. */
export class Routed {
  readonly output: number
  readonly event: unknown

  constructor(output: number, event: unknown) {
    this.output = output
    this.event = event
  }
}

const DROPPED = discard(0)
/** The value of the column for an event without a result. */
const OPEN = 254
const LONGEST_ERROR = 1000

/**
 * Lines that JSON.stringify may write otherwise although nothing was changed: with spaces between values, escapes, long
 * or unusual numbers, or names that are numbers.
 */
const UNUSUAL = /\\|":\s|^\s*\{\s|\s\}$|\d{16}|\d[eE]|\.\d*0(?!\d)|-0|"\d+":/

/** Collects what a script returns for the events of a batch. */
export class Results {
  readonly #id: number
  readonly #lines: readonly string[]
  readonly #to: Uint8Array
  /** The new JSON of events, and which events. */
  readonly #texts: string[] = []
  readonly #changed: number[] = []
  readonly #several: [number, string[]][] = []
  readonly #errors: [number, string][] = []

  constructor(id: number, lines: readonly string[]) {
    this.#id = id
    this.#lines = lines
    this.#to = new Uint8Array(lines.length).fill(OPEN)
  }

  /** Sets the result for event `i`. Throws if it is none. */
  set(i: number, result: unknown): void {
    if (result === null) this.#to[i] = DROPPED
    else if (Array.isArray(result)) this.#replace(i, result)
    else if (result instanceof Routed) this.#write(i, result.event, output(result.output))
    else this.#write(i, result, MAIN)
  }

  fail(i: number, error: string): void {
    this.#to[i] = FAILED
    this.#errors.push([i, error.slice(0, LONGEST_ERROR)])
  }

  /** Fails all events without a result. */
  failRest(error: string): void {
    for (let i = 0; i < this.#to.length; i++) if (this.#to[i] === OPEN) this.fail(i, error)
  }

  #write(i: number, event: unknown, to: number): void {
    const line = this.#lines[i]!
    const text = textOf(event)
    if (text !== line && !(UNUSUAL.test(line) && jsonText(JSON.parse(line)) === text)) {
      this.#texts.push(text)
      this.#changed.push(i)
    }
    this.#to[i] = to
  }

  #replace(i: number, events: readonly unknown[]): void {
    if (events.length > 0) this.#several.push([i, events.map(textOf)])
    this.#to[i] = events.length > 0 ? MAIN : DROPPED
  }

  done(): JobDone {
    const all = this.#texts.join('\n')
    const bytes = encoded(all)
    const isAscii = bytes.length === all.length
    const sizes = new Int32Array(this.#lines.length)
    for (const [n, i] of this.#changed.entries()) {
      const text = this.#texts[n]!
      sizes[i] = isAscii ? text.length : Buffer.byteLength(text)
    }
    return { type: 'done', id: this.#id, to: this.#to, sizes, bytes, several: this.#several, errors: this.#errors }
  }
}

function textOf(event: unknown): string {
  if (typeof event !== 'object' || event === null || Array.isArray(event) || event instanceof Routed)
    throw new TypeError(wrongResult(event))
  for (const name in event) {
    const value = (event as Fields)[name]
    if (typeof value === 'function' || typeof value === 'symbol')
      throw new TypeError(`returned an event whose field .${name} is a ${typeof value}, which has no JSON`)
  }
  const text = written(event)
  if (text?.[0] !== '{') throw new TypeError('returned an object whose JSON is not an object')
  return text
}

function written(event: object): string | undefined {
  try {
    return jsonText(event)
  } catch (error) {
    // A cycle is described in several lines.
    const [reason] = errorText(error).split('\n')
    throw new TypeError(`returned an event that has no JSON: ${reason}`)
  }
}

function wrongResult(result: unknown): string {
  if (result === undefined) return 'returned undefined; return the event, or null to discard it'
  if (result instanceof Routed) return 'returned a route in an array or a route; an array can only have events'
  const what = Array.isArray(result) ? 'an array' : result === null ? 'null' : `a ${typeof result}`
  return `returned ${what} where an event must be`
}

function encoded(text: string): Uint8Array {
  // Not from the pool of Node.js, whose memory cannot be passed to another thread.
  const bytes = Buffer.from(new ArrayBuffer(Buffer.byteLength(text)))
  bytes.write(text, bytes.length === text.length ? 'latin1' : 'utf8')
  return bytes
}
