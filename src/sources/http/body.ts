import type { IncomingMessage } from 'node:http'
import { createGunzip } from 'node:zlib'
import type { Lease } from './quota.js'
import { Gone, Refusal, tooLarge } from './refusal.js'

const FIRST_BYTES = 16 * 1024

/** Collects a body in memory that grows with what comes, not with what is announced. */
class Collected {
  bytes: Buffer = Buffer.alloc(0)
  size = 0
  readonly #maxBytes: number
  readonly #lease: Lease

  constructor(maxBytes: number, lease: Lease) {
    this.#maxBytes = maxBytes
    this.#lease = lease
  }

  add(part: Buffer): void {
    const size = this.size + part.length
    if (size > this.#maxBytes) throw tooLarge(this.#maxBytes)
    // One byte more than it takes: a line end may have to stand behind it.
    if (size >= this.bytes.length) {
      const room = Math.min(Math.max(size, this.size * 2, FIRST_BYTES), this.#maxBytes) + 1
      this.#lease.hold(room)
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
 */
export function readBody(request: IncomingMessage, options: BodyOptions): Promise<{ bytes: Buffer; size: number }> {
  const { gzip, maxBytes, lease, onBegin } = options
  return new Promise((resolve, reject) => {
    const collected = new Collected(maxBytes, lease)
    const inflate = gzip ? createGunzip() : undefined
    let received = 0
    const end = () => {
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose)
      inflate?.destroy()
    }
    const fail = (error: unknown) => {
      end()
      reject(error)
    }
    const add = (part: Buffer) => {
      try {
        collected.add(part)
      } catch (error) {
        fail(error)
      }
    }
    const done = () => {
      end()
      resolve(collected)
    }
    const onData = (part: Buffer) => {
      received += part.length
      if (received > maxBytes) return fail(tooLarge(maxBytes))
      if (!inflate) return add(part)
      if (inflate.write(part)) return
      request.pause()
      inflate.once('drain', () => request.resume())
    }
    const onEnd = () => (inflate ? inflate.end() : done())
    const onClose = () => {
      if (!request.complete) fail(new Gone())
    }
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose)
    inflate?.on('data', add).on('end', done)
    inflate?.on('error', () => fail(new Refusal(400, 'not_gzip', 'the body is not whole, valid gzip')))
    onBegin(fail)
  })
}
