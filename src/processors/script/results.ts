import { errorText } from '../../core/errors.js'
import type { Fields } from '../../core/event/event.js'
import { discard, FAILED, MAIN, output } from '../../core/processor.js'
import { jsonText } from '../../lib/formats/json-text.js'
import type { JobDone } from './messages.js'
import { isSameObject } from './notation.js'
import { Texts } from './texts.js'
import type { Route } from './types.js'

/** An event for one of the outputs of a script: what `context.to` returns. */
export class Routed implements Route {
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

/** Collects what a script returns for the events of a batch. */
export class Results {
  readonly #id: number
  readonly #lines: readonly string[]
  readonly #to: Uint8Array
  readonly #starts: Int32Array
  readonly #ends: Int32Array
  readonly #texts: Texts
  readonly #several: number[] = []
  readonly #errors: [number, string][] = []

  /** `bytes`: the size of the lines. */
  constructor(id: number, lines: readonly string[], bytes: number) {
    this.#id = id
    this.#lines = lines
    this.#starts = new Int32Array(lines.length)
    this.#ends = new Int32Array(lines.length)
    this.#texts = new Texts(bytes + (bytes >> 1))
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
    const text = textOf(event)
    if (!isSameObject(this.#lines[i]!, text)) {
      this.#starts[i] = this.#texts.used
      this.#ends[i] = this.#texts.add(text)
    }
    this.#to[i] = to
  }

  #replace(i: number, events: readonly unknown[]): void {
    // All of them, before anything is written.
    const texts = events.map(textOf)
    if (texts.length > 0) {
      this.#starts[i] = this.#texts.used
      for (const text of texts) this.#texts.add(text)
      this.#ends[i] = this.#texts.used
      this.#several.push(i)
    }
    this.#to[i] = texts.length > 0 ? MAIN : DROPPED
  }

  done(): JobDone {
    const [id, to, several, errors] = [this.#id, this.#to, this.#several, this.#errors]
    const [starts, ends, { bytes }] = [this.#starts, this.#ends, this.#texts]
    return { type: 'done', id, to, starts, ends, bytes, several, errors }
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
