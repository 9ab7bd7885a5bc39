import { GrowingBytes } from '../../lib/formats/growing-bytes.js'

/** Even with the largest `max_body` of a service, answers are shorter. */
const MOST_BYTES = 256 * 1024 * 1024

/** Collects the body of an answer. Copies the parts, since a list of small parts would take far more memory. */
export class AnswerBytes {
  readonly #content = new GrowingBytes()

  /** Throws if the answer gets too long. */
  add({ buffer, byteOffset, length }: Uint8Array): void {
    if (this.#content.length + length > MOST_BYTES) throw new Error('its answer is longer than 256 MiB')
    this.#content.add(Buffer.from(buffer, byteOffset, length), 0, length)
  }

  get bytes(): Buffer {
    return this.#content.bytes.subarray(0, this.#content.length)
  }
}
