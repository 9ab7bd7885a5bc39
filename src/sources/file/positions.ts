import { type Fingerprint, NO_BYTES } from './identity.js'

/** What a file holds between two truncations. Its head grows until it covers the first bytes. */
export interface Content {
  head: Fingerprint
}

/** A place in a file: the end of what was delivered, never inside of an undelivered line. */
export interface Position {
  readonly offset: number
  /** A part of the line that goes on here was delivered. */
  readonly continues: boolean
  /** What the splitter has to know of what was before (lib/record-splitter.ts). */
  readonly carry: number
  /** Of the bytes before `offset`. */
  readonly tail: Fingerprint
  readonly content: Content
}

/** The beginning of a file, of which nothing is known yet. */
export function emptyStart(): Position {
  return { offset: 0, continues: false, carry: 0, tail: NO_BYTES, content: { head: NO_BYTES } }
}

interface Waiting {
  readonly position: Position
  settled: boolean
  next: Waiting | undefined
}

/**
 * Positions whose batches are settled in any order and committed in order: what is committed is the position behind
 * which nothing is unsettled. One that is never settled stops it.
 */
export class Positions {
  #committed: Position
  #first: Waiting | undefined
  #last: Waiting | undefined
  readonly #onCommit: () => void

  constructor(start: Position, onCommit: () => void) {
    this.#committed = start
    this.#onCommit = onCommit
  }

  get committed(): Position {
    return this.#committed
  }

  /** Whether something added was not settled yet. */
  get unsettled(): boolean {
    return this.#first !== undefined
  }

  /** The next position; call what it returns when everything up to there is settled. */
  add(position: Position): () => void {
    const waiting: Waiting = { position, settled: false, next: undefined }
    if (this.#last) this.#last.next = waiting
    else this.#first = waiting
    this.#last = waiting
    return () => {
      waiting.settled = true
      this.#commit()
    }
  }

  #commit(): void {
    let first = this.#first
    if (!first?.settled) return
    while (first?.settled) {
      this.#committed = first.position
      first = first.next
    }
    this.#first = first
    if (!first) this.#last = undefined
    this.#onCommit()
  }
}
