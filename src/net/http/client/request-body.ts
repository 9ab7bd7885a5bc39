import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Encoded } from '../../../core/codecs/encode.js'
import type { EncodedRequest } from '../../../core/component.js'
import type { ClientOptions } from './options.js'
import { snappy } from './snappy.js'

const gzip = promisify(zlib.gzip)
const COMPRESSORS = {
  none: undefined,
  gzip: (level?: number) => joined(body => gzip(body, level === undefined ? {} : { level })),
  zstd: () => joined(compressor('zstdCompress')),
  snappy: () => async (body: Body) => bodyOf(await snappy(body.parts, body.bytes)),
}

/** The bytes of a request, in parts that are sent in order. */
export interface Body {
  readonly parts: readonly Buffer[]
  readonly bytes: number
}

type Compress = (body: Body) => Promise<Body>

/** `level`: the gzip level, if it is not the default. */
export function compressionOf(compression: ClientOptions['compression'], level?: number): Compress | undefined {
  return COMPRESSORS[compression]?.(level)
}

const bodyOf = (bytes: Buffer): Body => ({ parts: [bytes], bytes: bytes.length })

/** Passes a body to `compress` in one buffer. */
function joined(compress: ((body: Buffer) => Promise<Buffer>) | undefined): Compress | undefined {
  const memory = new JoinMemory()
  return (
    compress &&
    (async body => {
      const joined = memory.join(body)
      try {
        return bodyOf(await compress(joined))
      } finally {
        memory.giveBack(joined)
      }
    })
  )
}

/** The body of a request, encoded and compressed once. All attempts send the same bytes. */
export class RequestBody implements EncodedRequest {
  readonly size: number
  readonly idempotencyKey = randomUUID()
  /** Slices of chunks, held by the batches until these are settled. After compression: the compressed body. */
  #body: Body
  #encoded: Encoded | undefined
  readonly #compress: Compress | undefined
  #compressed: Promise<Body> | undefined
  #attempts = 0

  constructor(encoded: Encoded, compress?: Compress) {
    this.size = encoded.bytes
    this.#body = this.#encoded = encoded
    this.#compress = compress
  }

  /** Returns the bytes of the next attempt. */
  async take(): Promise<Body> {
    this.#attempts++
    if (!this.#compress) return this.#body
    this.#compressed ??= this.#compress(this.#body)
    try {
      this.#body = await this.#compressed
      this.release()
      return this.#body
    } catch (error) {
      this.#compressed = undefined
      throw error
    }
  }

  /** Call it when the request was delivered. Reuses the memory unless an earlier attempt may still send it. */
  delivered(): void {
    if (this.#attempts === 1) this.release()
  }

  /** Reuses the memory of the encoded body, which nothing reads from now on. */
  release(): void {
    this.#encoded?.release?.()
    this.#encoded = undefined
  }
}

function compressor(name: string): ((body: Buffer) => Promise<Buffer>) | undefined {
  const compress = (zlib as unknown as Record<string, typeof zlib.gzip | undefined>)[name]
  return compress && promisify(compress)
}

/** Larger buffers are not kept for reuse. */
const LARGEST = 2 * 1024 * 1024
const MOST_KEPT = 4
const STEP = 64 * 1024

/** Memory for bodies during compression. Allocating it for each body would cost many garbage collections. */
class JoinMemory {
  readonly #kept: Buffer[] = []

  /** Joins a body into one buffer. Return the buffer with `giveBack`. */
  join({ parts, bytes }: Body): Buffer {
    const kept = this.#kept.pop()
    const memory = kept && kept.length >= bytes ? kept : Buffer.allocUnsafeSlow(Math.ceil(bytes / STEP) * STEP)
    let at = 0
    for (const part of parts) at += part.copy(memory, at)
    return memory.subarray(0, at)
  }

  giveBack(joined: Buffer): void {
    const memory = Buffer.from(joined.buffer)
    if (memory.length <= LARGEST && this.#kept.length < MOST_KEPT) this.#kept.push(memory)
  }
}
