import type { IncomingHttpHeaders } from 'node:http'
import type { Readable, Transform } from 'node:stream'
import zlib from 'node:zlib'
import { bodyRoom, freeBody, takeBody } from './body-memory.js'
import type { Lease } from './quota.js'
import { Gone, Refusal, tinyParts, tooLarge } from './refusal.js'

const FIRST_BYTES = 16 * 1024
/** A body may arrive in this many parts of any size. Each part costs time and memory. */
const FREE_PARTS = 4096
/** If a body arrives in more parts, these must have at least this many bytes on average. */
const LEAST_PART_BYTES = 16

/** Collects a body in memory that grows with the bytes received, not with the announced length. */
class Collected {
  bytes: Buffer = Buffer.alloc(0)
  size = 0
  readonly #maxBytes: number
  readonly #firstBytes: number
  readonly #hold: (bytes: number) => void

  /** Calls `hold` with a buffer's size before allocating it. `announced`: the announced length, if known. */
  constructor(maxBytes: number, hold: (bytes: number) => void, announced?: number) {
    this.#maxBytes = maxBytes
    this.#hold = hold
    this.#firstBytes = Math.min(FIRST_BYTES, (announced ?? FIRST_BYTES) + 1)
  }

  add(part: Buffer): void {
    const size = this.size + part.length
    if (size > this.#maxBytes) throw tooLarge(this.#maxBytes)
    // The buffer has one more byte than the body, because a line end may have to follow.
    if (size >= this.bytes.length) {
      const wanted = Math.max(size + 1, this.bytes.length * 2, this.#firstBytes)
      const room = Math.min(bodyRoom(wanted), this.#maxBytes + 1)
      this.#hold(room)
      const larger = takeBody(room)
      this.bytes.copy(larger, 0, 0, this.size)
      freeBody(this.bytes)
      this.bytes = larger
    }
    part.copy(this.bytes, this.size)
    this.size = size
  }
}

/** A request, or a stream of HTTP/2. */
type Body = Readable & { readonly headers?: IncomingHttpHeaders }

export type BodyEncoding = 'gzip' | 'zstd'

export const HAS_ZSTD = 'createZstdDecompress' in zlib
/** Maximum window of zstd as a power of two: 8 MiB, which senders over HTTP must not exceed. */
const MOST_WINDOW_BITS = 23

export interface BodyOptions {
  /** How the body is compressed; a function is called with the whole body, and may throw a Refusal. */
  readonly encoding?: BodyEncoding | ((body: Buffer) => BodyEncoding | undefined) | undefined
  /** Bytes before the compressed content. */
  readonly skip?: number
  /** Limit of the body as received, and as decompressed. */
  readonly maxBytes: number
  readonly lease: Lease
  /** Called when reading begins. The function `refuse` stops reading and rejects with the refusal. */
  readonly onBegin: (refuse: (refusal: Refusal) => void) => void
}

/**
 * Reads the body of a request into a buffer. Unless the body is empty, the buffer has room for at least one byte after
 * `size`. Return the buffer with `freeBody`. Rejects with a Refusal or Gone; a response can still be sent.
 *
 * A compressed body is collected completely before it is decompressed. A zlib stream would keep each waiting part as an
 * object, which takes hundreds of times the memory if each part has one byte.
 */
export function readBody(request: Body, options: BodyOptions): Promise<{ bytes: Buffer; size: number }> {
  const { maxBytes, lease, onBegin } = options
  return new Promise((resolve, reject) => {
    // If the client left before this call, the request emits nothing more.
    if (request.destroyed) {
      reject(new Gone())
      return
    }
    const length = request.headers?.['content-length']
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
      try {
        const content = body.bytes.subarray(0, body.size)
        const encoding = typeof options.encoding === 'function' ? options.encoding(content) : options.encoding
        if (encoding) stopInflating = inflate(body, encoding, options, done, fail)
        else done(body)
      } catch (error) {
        fail(error)
      }
    }
    const onClose = () => {
      if (!request.readableEnded) fail(new Gone())
    }
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose)
    onBegin(fail)
  })
}

/** Decompresses a body. Returns a function that cancels the decompression. */
function inflate(
  body: Collected,
  encoding: BodyEncoding,
  { maxBytes, lease, skip = 0 }: BodyOptions,
  done: (inflated: Collected) => void,
  fail: (error: unknown) => void,
): () => void {
  // Counts only the larger of the compressed and the decompressed buffer. The compressed buffer is freed soon; until
  // then, a body of `maxBytes` must have room.
  const inflated = new Collected(maxBytes, bytes => lease.hold(Math.max(bytes, body.bytes.length)))
  const inflater = inflaterOf(encoding)
  const add = (part: Buffer) => {
    try {
      inflated.add(part)
    } catch (error) {
      fail(error)
    }
  }
  inflater.on('data', add).on('end', () => {
    lease.hold(inflated.bytes.length)
    done(inflated)
  })
  const broken = () => fail(new Refusal(400, `not_${encoding}`, `the body is not complete, valid ${encoding}`))
  inflater.on('error', broken)
  inflater.end(body.bytes.subarray(skip, body.size))
  return () => inflater.destroy()
}

function inflaterOf(encoding: BodyEncoding): Transform {
  if (encoding === 'gzip') return zlib.createGunzip()
  const { createZstdDecompress, constants } = zlib as typeof zlib & {
    createZstdDecompress(options: object): Transform
    constants: { ZSTD_d_windowLogMax: number }
  }
  return createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: MOST_WINDOW_BITS } })
}
