import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Encoded } from '../../../core/codecs/encode.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { ClientOptions } from './options.js'
import { snappy } from './snappy.js'

const gzip = promisify(zlib.gzip)
const COMPRESSORS = {
  none: undefined,
  gzip: (level?: number) => (body: Buffer) => gzip(body, level === undefined ? {} : { level }),
  zstd: () => compressor('zstdCompress'),
  snappy: () => snappy,
}

/** The bytes of a request, in parts that are sent in order. */
export interface Body {
  readonly parts: readonly Buffer[]
  readonly bytes: number
}

/** An encoded request. All attempts send the same bytes. */
interface Prepared {
  /** Slices of chunks, held by the batches until these are settled. After compression: the compressed body. */
  body: Body
  compressed?: Promise<Body>
  readonly idempotencyKey: string
  /** Releases the memory of the body for reuse. */
  release: (() => void) | undefined
  attempts: number
}

type Request = readonly EventBatch[]

/** Encodes and compresses the body of each request once, for all its attempts. */
export class RequestBodies {
  readonly #encode: (request: Request) => Encoded
  readonly #compress: ((body: Buffer) => Promise<Buffer>) | undefined
  readonly #memory = new JoinMemory()
  readonly #prepared = new WeakMap<Request, Prepared>()

  /** `level`: the gzip level, if it is not the default. */
  constructor(encode: (request: Request) => Encoded, compression: ClientOptions['compression'], level?: number) {
    this.#encode = encode
    this.#compress = COMPRESSORS[compression]?.(level)
  }

  /** Returns the uncompressed size of a request. If it is at most `maxBytes`, keeps the body, which is sent next. */
  sizeOf(request: Request, maxBytes: number): number {
    const body = this.#encode(request)
    const release = body.release?.bind(body)
    if (body.bytes > maxBytes) release?.()
    else this.#prepared.set(request, { body, idempotencyKey: randomUUID(), release, attempts: 0 })
    return body.bytes
  }

  async of(request: Request): Promise<{ body: Body; idempotencyKey: string }> {
    if (!this.#prepared.has(request)) this.sizeOf(request, Number.POSITIVE_INFINITY)
    const prepared = this.#prepared.get(request)!
    prepared.attempts++
    if (!this.#compress) return prepared
    prepared.compressed ??= this.#compressed(prepared, this.#compress)
    try {
      prepared.body = await prepared.compressed
      return prepared
    } catch (error) {
      delete prepared.compressed
      throw error
    }
  }

  /** Call it when a request was delivered. Reuses the body's memory unless an earlier attempt may still send it. */
  delivered(request: Request): void {
    const { attempts, release } = this.#prepared.get(request)!
    if (attempts === 1) release?.()
    this.#prepared.delete(request)
  }

  async #compressed(prepared: Prepared, compress: (body: Buffer) => Promise<Buffer>): Promise<Body> {
    const joined = this.#memory.join(prepared.body)
    try {
      const compressed = await compress(joined)
      prepared.release?.()
      prepared.release = undefined
      return { parts: [compressed], bytes: compressed.length }
    } finally {
      this.#memory.giveBack(joined)
    }
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
