import type { Clock } from '../../../lib/time.js'

export const ID = /^[0-9a-f]{24}$/

const SHORT_ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz'
const SHORT_LENGTH = 9
/** Random bytes of this value or above are dropped, so all characters are equally likely. */
const FAIR = 256 - (256 % SHORT_ALPHABET.length)

/** Creates ids of 6 bytes of time and 6 random bytes. Lists that are sorted by id are thus sorted by creation time. */
export class Ids {
  readonly #clock: Clock
  readonly #random: (bytes: number) => Buffer
  #last = 0

  constructor(clock: Clock, random: (bytes: number) => Buffer) {
    this.#clock = clock
    this.#random = random
  }

  /** Returns an id that is greater than all ids that this process returned before. */
  next(): string {
    this.#last = Math.max(Math.floor(this.#clock.wall()), this.#last + 1)
    return idAt(this.#last) + this.#random(6).toString('hex')
  }

  /** Returns 9 letters and digits. The caller must check that the id is unique. */
  short(): string {
    let text = ''
    while (text.length < SHORT_LENGTH) {
      for (const byte of this.#random(SHORT_LENGTH)) {
        if (byte < FAIR && text.length < SHORT_LENGTH) text += SHORT_ALPHABET[byte % SHORT_ALPHABET.length]
      }
    }
    return text
  }
}

/** Returns a text that is greater than all ids created before `ms` (milliseconds since 1970). */
export function idAt(ms: number): string {
  return Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0')
}
