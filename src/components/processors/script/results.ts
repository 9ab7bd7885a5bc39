import { errorText } from '../../../core/errors.js'
import type { Fields } from '../../../core/event/event-fields.js'
import { Growth } from '../../../core/event/growth.js'
import { discard, FAILED, MAIN, output } from '../../../core/processor.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import type { JobDone } from './messages.js'
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
/** The value in `#to` for an event that has no result yet. */
const OPEN = 254
export const LONGEST_ERROR = 1000
/** Maximum characters of all errors of a batch. After that, errors are cut to SHORT_ERROR. */
const MOST_ERRORS = 1024 * 1024
const SHORT_ERROR = 40
const ROOM_MIB = 32

/** Maximum bytes that a script may return for a batch. */
export function mostTexts(events: number, bytes: number): number {
  return new Growth(ROOM_MIB).mostOfBatch(events, bytes)
}

const LF = 0x0a

/** Texts in UTF-8, each followed by a line feed. The memory with the texts is sent to the daemon unchanged. */
class Texts {
  #bytes = Buffer.alloc(0)
  #used = 0
  readonly #expected: number

  /** `expected`: estimated bytes of the texts. */
  constructor(expected: number) {
    this.#expected = expected
  }

  /** Returns the position of the line feed, which is directly after the text. */
  add(text: string): number {
    const most = text.length * 3 + 1
    if (this.#bytes.length - this.#used < most) this.#grow(most)
    const end = this.#used + this.#bytes.write(text, this.#used)
    this.#bytes[end] = LF
    this.#used = end + 1
    return end
  }

  #grow(by: number): void {
    const more = Math.max(by, this.#bytes.length === 0 ? this.#expected : this.#bytes.length)
    const bytes = Buffer.allocUnsafeSlow(this.#used + more)
    this.#bytes.copy(bytes, 0, 0, this.#used)
    this.#bytes = bytes
  }

  get used(): number {
    return this.#used
  }

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#used)
  }
}

export class Results {
  readonly #id: number
  readonly #lines: readonly string[]
  readonly #to: Uint8Array
  readonly #starts: Int32Array
  readonly #ends: Int32Array
  readonly #texts: Texts
  readonly #several: number[] = []
  readonly #errors: [number, string][] = []
  readonly #growth = new Growth(ROOM_MIB)
  #errorsLength = 0

  /** `bytes`: the size of the lines. */
  constructor(id: number, lines: readonly string[], bytes: number) {
    this.#id = id
    this.#lines = lines
    this.#starts = new Int32Array(lines.length)
    this.#ends = new Int32Array(lines.length)
    this.#texts = new Texts(bytes + (bytes >> 1))
    this.#to = new Uint8Array(lines.length).fill(OPEN)
    this.#growth.begin()
  }

  /** Throws if the result is invalid. */
  set(i: number, result: unknown): void {
    if (result === null) this.#to[i] = DROPPED
    else if (Array.isArray(result)) this.#replace(i, result)
    else if (result instanceof Routed) this.#write(i, result.event, output(result.output))
    else this.#write(i, result, MAIN)
  }

  fail(i: number, error: string): void {
    this.#to[i] = FAILED
    const text = error.slice(0, this.#errorsLength < MOST_ERRORS ? LONGEST_ERROR : SHORT_ERROR)
    this.#errorsLength += text.length
    this.#errors.push([i, text])
  }

  failRest(error: string): void {
    for (let i = 0; i < this.#to.length; i++) if (this.#to[i] === OPEN) this.fail(i, error)
  }

  #write(i: number, event: unknown, to: number): void {
    const text = textOf(event)
    const line = this.#lines[i]!
    if (!isSameObject(line, text)) {
      refuse(this.#growth.refuse(line.length, sizeOf([text])))
      this.#starts[i] = this.#texts.used
      this.#ends[i] = this.#texts.add(text)
    }
    this.#to[i] = to
  }

  #replace(i: number, events: readonly unknown[]): void {
    // A conversion may throw, so all events are converted before anything is written.
    const texts = events.map(textOf)
    if (texts.length > 0) {
      refuse(this.#growth.refuseSeveral(this.#lines[i]!.length, sizeOf(texts)))
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
    return { id, to, starts, ends, bytes, several, errors }
  }
}

/** The size of texts with their line feeds. */
function sizeOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0)
}

function refuse(why: string | undefined): void {
  if (why !== undefined) throw new RangeError(`returned too much for one event: ${why}`)
}

function textOf(event: unknown): string {
  if (typeof event !== 'object' || event === null || Array.isArray(event) || event instanceof Routed)
    throw new TypeError(wrongResult(event))
  for (const name in event) {
    const value = (event as Fields)[name]
    if (typeof value === 'function' || typeof value === 'symbol')
      throw new TypeError(
        `returned an event whose field .${name} is a ${typeof value}, which cannot be written as JSON`,
      )
  }
  const text = written(event)
  if (text?.[0] !== '{')
    throw new TypeError('returned an object, such as a Date, that JSON.stringify does not turn into a JSON object')
  return text
}

function written(event: object): string | undefined {
  try {
    return jsonText(event)
  } catch (error) {
    // Takes the first line, because the message about a cycle has several.
    const [reason] = errorText(error).split('\n')
    throw new TypeError(`returned an event that cannot be written as JSON: ${reason}`)
  }
}

function wrongResult(result: unknown): string {
  if (result === undefined) return 'returned undefined; return the event, or null to discard it'
  if (result instanceof Routed)
    return 'returned a route inside an array or inside another route; an array can only have events'
  const what = Array.isArray(result) ? 'an array' : result === null ? 'null' : `a ${typeof result}`
  return `returned ${what} instead of an event`
}

/** A run of 16 digits. A double cannot represent every such number exactly. */
const LONG_NUMBER = /[\d.]{16}/
/** The beginning of an escape such as `\u00e9`. */
const ESCAPE = /\\u[\da-f]{0,3}$/i

const isDigit = (character: string | undefined) => character !== undefined && character >= '0' && character <= '9'

/**
 * Whether a line contains the same object as `text`, which JSON.stringify wrote. The line may use another notation:
 * spaces, other escapes, or numbers such as 1.0 and 12345678901234567890. The line is parsed only if the first
 * difference may be one of notation.
 */
export function isSameObject(line: string, text: string): boolean {
  return text === line || (differsInNotation(line, text) && jsonText(JSON.parse(line)) === text)
}

function differsInNotation(line: string, text: string): boolean {
  // Another notation is rarely shorter than the notation of JSON.stringify. So a field was probably appended.
  const last = line.length - 1
  if (text.length > line.length && text[last] === ',' && text[last - 1] === line[last - 1]) return false
  let at = 0
  while (at < line.length && line.charCodeAt(at) === text.charCodeAt(at)) at++
  const character = line[at]
  switch (character) {
    case ' ':
    case '\t':
    case '\r':
    case '\\':
    case '.':
    case '+':
    case '-':
      return true
    case 'e':
    case 'E':
      return isDigit(line[at - 1])
    default:
  }
  if (isDigit(character) && (!isDigit(text[at]) || LONG_NUMBER.test(line.slice(Math.max(0, at - 16), at + 16))))
    return true
  return line[at - 1] === '\\' || ESCAPE.test(line.slice(Math.max(0, at - 5), at))
}
