import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Encoded } from '../../codecs/encode.js'
import type { EventBatch } from '../../core/batch.js'
import { BodyMemory } from './body-memory.js'
import type { ClientOptions } from './options.js'

const COMPRESSORS = {
  none: undefined,
  gzip: promisify(zlib.gzip),
  zstd: compressor('zstdCompress'),
}

/** A request as it is sent, the same at each attempt. */
interface Prepared {
  /** Before compression; undefined: it is compressed. */
  plain: Buffer | undefined
  compressed?: Promise<Buffer>
  readonly idempotencyKey: string
}

type Request = readonly EventBatch[]

/** The bodies of requests. Each is encoded and compressed once, however often it is sent. */
export class RequestBodies {
  readonly #encode: (request: Request) => Encoded
  readonly #compress: ((body: Buffer) => Promise<Buffer>) | undefined
  readonly #memory: BodyMemory
  readonly #prepared = new WeakMap<Request, Prepared>()

  /** `flushed`: whether nothing waits to be sent. */
  constructor(
    encode: (request: Request) => Encoded,
    compression: ClientOptions['compression'],
    flushed: () => boolean,
  ) {
    this.#encode = encode
    this.#compress = COMPRESSORS[compression]
    this.#memory = new BodyMemory(flushed)
  }

  /** The bytes of a request before compression. One of at most `maxBytes` is sent next, so its body is kept. */
  sizeOf(request: Request, maxBytes: number): number {
    const { parts, bytes } = this.#encode(request)
    // A copy: a receiver may answer before it has read all of it, and the batches' own bytes are used again then.
    if (bytes <= maxBytes) {
      this.#prepared.set(request, { plain: this.#memory.join(parts, bytes), idempotencyKey: randomUUID() })
    }
    return bytes
  }

  async of(request: Request): Promise<{ body: Buffer; idempotencyKey: string }> {
    if (!this.#prepared.has(request)) this.sizeOf(request, Number.POSITIVE_INFINITY)
    const prepared = this.#prepared.get(request)!
    const { idempotencyKey, plain } = prepared
    if (plain && !this.#compress) return { body: plain, idempotencyKey }
    if (plain && this.#compress) prepared.compressed ??= this.#compress(plain)
    try {
      const body = await prepared.compressed!
      if (prepared.plain) this.#memory.giveBack(prepared.plain)
      prepared.plain = undefined
      return { body, idempotencyKey }
    } catch (error) {
      delete prepared.compressed
      throw error
    }
  }

  /** The request is delivered: it is not tried again. */
  delivered(request: Request, body: Buffer): void {
    this.#prepared.delete(request)
    if (!this.#compress) this.#memory.giveBack(body)
  }
}

function compressor(name: string): ((body: Buffer) => Promise<Buffer>) | undefined {
  const compress = (zlib as unknown as Record<string, typeof zlib.gzip | undefined>)[name]
  return compress && promisify(compress)
}
