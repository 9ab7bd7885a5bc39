import type { IncomingMessage } from 'node:http'
import { createGunzip } from 'node:zlib'
import type { Lease } from './quota.js'
import { Gone, Refusal, tinyParts, tooLarge } from './refusal.js'

const FIRST_BYTES = 16 * 1024
/** A body may come in so many parts whatever their size. Each costs time and memory of its own. */
const FREE_PARTS = 4096
/** Beyond that, parts have at least so many bytes on average. */
const LEAST_PART_BYTES = 16

/** Collects a body in memory that grows with what comes, not with what is announced. */
class Collected {
  bytes: Buffer = Buffer.alloc(0)
  size = 0
  readonly #maxBytes: number
  readonly #firstBytes: number
  readonly #hold: (bytes: number) => void

  /** `hold` is called with the memory that it takes before it takes it. `announced`: undefined when the length is unknown. */
  constructor(maxBytes: number, hold: (bytes: number) => void, announced?: number) {
    this.#maxBytes = maxBytes
    this.#hold = hold
    this.#firstBytes = Math.min(FIRST_BYTES, announced ?? FIRST_BYTES)
  }

  add(part: Buffer): void {
    const size = this.size + part.length
    if (size > this.#maxBytes) throw tooLarge(this.#maxBytes)
    // One byte more than it takes: a line end may have to stand behind it.
    if (size >= this.bytes.length) {
      const room = Math.min(Math.max(size, this.size * 2, this.#firstBytes), this.#maxBytes) + 1
      this.#hold(room)
      const larger = Buffer.allocUnsafeSlow(room)
      this.bytes.copy(larger, 0, 0, this.size)
      this.bytes = larger
    }
    part.copy(this.bytes, this.size)
    this.size = size
  }
}

export interface BodyOptions {
  readonly gzip: boolean
  /** Of the body as it comes, and as it is when it was inflated. */
  readonly maxBytes: number
  readonly lease: Lease
  /** Is handed what ends the reading from outside. */
  readonly onBegin: (refuse: (refusal: Refusal) => void) => void
}

/**
 * The body of a request: a buffer, with room for one byte at least behind the `size` bytes where there are any.
 * Rejects with a Refusal, or with Gone. The request itself stays as it is: an answer can follow.
 *
 * A compressed body is collected whole before it is inflated: a stream of zlib would keep each part that waits for it as an
 * object of its own, which is hundreds of times the memory where the parts have one byte.
 */
export function readBody(request: IncomingMessage, options: BodyOptions): Promise<{ bytes: Buffer; size: number }> {
  const { gzip, maxBytes, lease, onBegin } = options
  return new Promise((resolve, reject) => {
    const length = request.headers['content-length']
    const body = new Collected(maxBytes, bytes => lease.hold(bytes), length === undefined ? undefined : Number(length))
    let parts = 0
    let stopInflating = () => {}
    const end = () => {
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose)
      stopInflating()
    }
    const fail = (error: unknown) => {
      end()
      reject(error)
    }
    const done = (collected: Collected) => {
      end()
      resolve(collected)
    }
    const onData = (part: Buffer) => {
      try {
        body.add(part)
        if (++parts > FREE_PARTS && body.size < parts * LEAST_PART_BYTES) throw tinyParts(LEAST_PART_BYTES)
      } catch (error) {
        fail(error)
      }
    }
    const onEnd = () => {
      if (gzip) stopInflating = inflate(body, { maxBytes, lease }, done, fail)
      else done(body)
    }
    const onClose = () => {
      if (!request.complete) fail(new Gone())
    }
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose)
    onBegin(fail)
  })
}

/** Returns what ends it. */
function inflate(
  body: Collected,
  { maxBytes, lease }: Pick<BodyOptions, 'maxBytes' | 'lease'>,
  done: (inflated: Collected) => void,
  fail: (error: unknown) => void,
): () => void {
  // What counts is the larger of the two, as a body must fit that takes all there is room for. The other one is soon gone.
  const inflated = new Collected(maxBytes, bytes => lease.hold(Math.max(bytes, body.bytes.length)))
  const gunzip = createGunzip()
  const add = (part: Buffer) => {
    try {
      inflated.add(part)
    } catch (error) {
      fail(error)
    }
  }
  gunzip.on('data', add).on('end', () => {
    lease.hold(inflated.bytes.length)
    done(inflated)
  })
  gunzip.on('error', () => fail(new Refusal(400, 'not_gzip', 'the body is not whole, valid gzip')))
  gunzip.end(body.bytes.subarray(0, body.size))
  return () => gunzip.destroy()
}
