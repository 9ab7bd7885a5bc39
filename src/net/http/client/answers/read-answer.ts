import type { Readable } from 'node:stream'
import type { AnswerList } from '../request-format.js'
import { oneLine, readBody } from './answer-text.js'
import type { Entry } from './divided.js'
import { LongAnswer } from './long-answer.js'

/** A JSON response of at most this size is parsed as a whole. */
const WHOLE_BYTES = 4 * 1024 * 1024
/** Limit of a response; no legitimate one is longer. */
const ANSWER_BYTES = 64 * 1024 * 1024
const MOST_ENTRIES = 1_000_000
const MESSAGES = 100

export interface ReadAnswer {
  /** The beginning of the response as one line. */
  readonly text: string
  /** Undefined if the response has another form. */
  readonly entries: readonly Entry[] | undefined
  /** Why the response was cut off. */
  readonly broken: unknown
  /** The response exceeds all limits, so it is unknown what it rejects. */
  readonly unreadable: boolean
}

/** Reads the results for single events from a JSON response of any length in bounded memory. */
export async function readAnswer(body: Readable, list: AnswerList): Promise<ReadAnswer> {
  const chunks: Buffer[] = []
  let bytes = 0
  let long: LongList | undefined
  let unreadable = false
  const broken = await readBody(body, chunk => {
    bytes += chunk.length
    if (!long) chunks.push(chunk)
    if (!long && bytes > WHOLE_BYTES) {
      long = new LongList(list)
      for (const earlier of chunks) long.write(earlier)
      chunks.length = 1
    } else long?.write(chunk)
    unreadable = bytes > ANSWER_BYTES || long?.unreadable === true
    return !unreadable
  })
  if (unreadable) return { ...none(chunks), unreadable }
  if (broken !== undefined) return { ...none(chunks), broken }
  if (long) return { ...none(chunks), entries: long.entries() }
  // Most responses are empty.
  if (bytes === 0) return none(chunks)
  return { ...none(chunks), entries: entriesOf(Buffer.concat(chunks).toString(), list) }
}

function none(chunks: readonly Buffer[]): ReadAnswer {
  return { text: oneLine(Buffer.concat(chunks)), entries: undefined, broken: undefined, unreadable: false }
}

/** The entries of a response that is too long to be parsed as a whole. */
class LongList {
  readonly #entries: Entry[] = []
  readonly #answer: LongAnswer
  #valid = true
  unreadable = false

  constructor({ name, entry }: AnswerList) {
    this.#answer = new LongAnswer(name, value => {
      if (value === undefined || this.#entries.length >= MOST_ENTRIES) this.unreadable = true
      const found = entry(value, this.#entries.length)
      if (!found) this.#valid = false
      // Only one message is shown, that of the first rejected event.
      else this.#entries.push(this.#entries.length < MESSAGES ? found : { ...found, message: undefined })
    })
  }

  write(chunk: Buffer): void {
    this.#answer.write(chunk)
  }

  entries(): readonly Entry[] | undefined {
    return this.#valid && this.#answer.complete ? this.#entries : undefined
  }
}

/** The entries of a complete response; undefined if it has no such list. */
function entriesOf(text: string, { name, entry }: AnswerList): Entry[] | undefined {
  let list: unknown
  try {
    list = (JSON.parse(text) as { readonly [name: string]: unknown } | null)?.[name]
  } catch {
    return undefined
  }
  if (!Array.isArray(list)) return undefined
  const entries = list.map((value, position) => entry(value, position))
  return entries.every(entry => entry !== undefined) ? entries : undefined
}
