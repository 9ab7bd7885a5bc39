import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Encoded } from '../../codecs/encode.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { ClientOptions } from './options.js'

/** The memory of a larger body is not kept for reuse. */
const LARGEST = 2 * 1024 * 1024
const MOST_KEPT = 4
const STEP = 64 * 1024

const COMPRESSORS = {
  none: undefined,
  gzip: promisify(zlib.gzip),
  zstd: compressor('zstdCompress'),
}

/** A request as it is sent, identical in each attempt. */
interface Prepared {
  /** The uncompressed body; undefined once it is compressed. */
  plain: Buffer | undefined
  compressed?: Promise<Buffer>
  readonly idempotencyKey: string
}

type Request = readonly EventBatch[]

/** Encodes and compresses the body of each request once, however often it is sent. */
export class RequestBodies {
  readonly #encode: (request: Request) => Encoded
  readonly #compress: ((body: Buffer) => Promise<Buffer>) | undefined
  readonly #memory: BodyMemory
  readonly #prepared = new WeakMap<Request, Prepared>()

  /** `flushed`: whether no bytes wait to be sent. */
  constructor(
    encode: (request: Request) => Encoded,
    compression: ClientOptions['compression'],
    flushed: () => boolean,
  ) {
    this.#encode = encode
    this.#compress = COMPRESSORS[compression]
    this.#memory = new BodyMemory(flushed)
  }

  /** The uncompressed size of a request. If it is at most `maxBytes`, the request is sent next, so its body is kept. */
  sizeOf(request: Request, maxBytes: number): number {
    const { parts, bytes } = this.#encode(request)
    // Copied: a receiver may respond before it has read everything, and then the memory of the batches is reused.
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

  /** The request was delivered and will not be repeated. */
  delivered(request: Request, body: Buffer): void {
    this.#prepared.delete(request)
    if (!this.#compress) this.#memory.giveBack(body)
  }
}

function compressor(name: string): ((body: Buffer) => Promise<Buffer>) | undefined {
  const compress = (zlib as unknown as Record<string, typeof zlib.gzip | undefined>)[name]
  return compress && promisify(compress)
}

/**
 * Memory for request bodies. Fresh memory for each would cost a garbage collection every few dozen requests. Invariant:
 * memory is reused only after a moment when no bytes waited to be sent.
 */
class BodyMemory {
  readonly #kept: Buffer[] = []
  /** Memory that was returned while bytes of it may still have been waiting to be sent. */
  #lent: Buffer[] = []
  readonly #flushed: () => boolean

  /** `flushed`: whether no bytes wait to be sent; then returned memory is free. */
  constructor(flushed: () => boolean) {
    this.#flushed = flushed
  }

  /** Concatenates the parts. */
  join(parts: readonly Buffer[], bytes: number): Buffer {
    this.#settle()
    const kept = this.#kept.pop()
    const memory = kept && kept.length >= bytes ? kept : Buffer.allocUnsafeSlow(Math.ceil(bytes / STEP) * STEP)
    let at = 0
    for (const part of parts) at += part.copy(memory, at)
    return memory.subarray(0, at)
  }

  /** Returns the memory of a body that no request needs any more. */
  giveBack(body: Buffer): void {
    const memory = Buffer.from(body.buffer)
    if (memory.length > LARGEST || this.#kept.length + this.#lent.length >= MOST_KEPT) return
    this.#lent.push(memory)
    this.#settle()
  }

  #settle(): void {
    if (this.#lent.length === 0 || !this.#flushed()) return
    this.#kept.push(...this.#lent)
    this.#lent = []
  }
}
