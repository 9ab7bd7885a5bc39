import { CONTINUES, PIECE } from '../../lib/lines/line-splitter.js'
import type { EventBatch } from './batch.js'
import { ORIGIN_FIELDS, originField } from './event.js'
import { DECODED } from './flags.js'
import type { Origin } from './origin.js'

const BITS = new Map(ORIGIN_FIELDS.map((name, n) => [name, 1 << n]))
const MOST = 1 << ORIGIN_FIELDS.length

/**
 * Fields that a line does not have can come from the origin. Returns the bit of such a field; 0 for all other fields.
 */
export function originBit(name: string): number {
  return BITS.get(name) ?? 0
}

export function ownBits(names: readonly string[]): number {
  return names.reduce((bits, name) => bits | originBit(name), 0)
}

/** The end of an event's JSON, with the fields from the event's origin. It is the same for most lines of a batch. */
export class OriginTail {
  #origin: Origin | undefined
  #receivedAt = 0
  /** Indexed by the bits of the line's own fields and by the position of the piece in its line. */
  readonly #tails: (Buffer | undefined)[] = []

  /** Returns the end of the JSON, after the last field of the line. `own`: the bits of the line's own fields. */
  of({ origin, receivedAt }: EventBatch, flags: number, own = 0): Buffer {
    if (this.#origin !== origin || this.#receivedAt !== receivedAt) {
      this.#tails.length = 0
      this.#origin = origin
      this.#receivedAt = receivedAt
    }
    const at = (flags & (PIECE | CONTINUES | DECODED)) * MOST + own
    this.#tails[at] ??= tail(origin, receivedAt, flags, own)
    return this.#tails[at]
  }
}

function tail(origin: Origin, receivedAt: number, flags: number, own: number): Buffer {
  let text = ''
  for (const name of ORIGIN_FIELDS) {
    const value = own & originBit(name) ? undefined : originField(origin, receivedAt, flags, name)
    if (value !== undefined) text += `,"${name}":${JSON.stringify(value)}`
  }
  return Buffer.from(`${text}}`)
}
