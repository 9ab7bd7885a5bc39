import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Encoded } from '../../codecs/encode.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { ClientOptions } from './options.js'

/** A larger body is not worth keeping its memory for the next. */
const LARGEST = 2 * 1024 * 1024
const MOST_KEPT = 4
const STEP = 64 * 1024

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

/**
 * Memory for the bodies of requests. Fresh memory for each would cost a garbage collection every few dozen requests.
 * Invariant: it is used again only after a moment when nothing waited to be sent.
 */
class BodyMemory {
  readonly #kept: Buffer[] = []
  /** Given back, while something may still have been read from them. */
  #lent: Buffer[] = []
  readonly #flushed: () => boolean

  /** `flushed`: whether nothing waits to be sent, so that what was given back is read by nobody any more. */
  constructor(flushed: () => boolean) {
    this.#flushed = flushed
  }

  /** The parts in one piece. */
  join(parts: readonly Buffer[], bytes: number): Buffer {
    this.#settle()
    const kept = this.#kept.pop()
    const memory = kept && kept.length >= bytes ? kept : Buffer.allocUnsafeSlow(Math.ceil(bytes / STEP) * STEP)
    let at = 0
    for (const part of parts) at += part.copy(memory, at)
    return memory.subarray(0, at)
  }

  /** No request needs this body any more. */
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
