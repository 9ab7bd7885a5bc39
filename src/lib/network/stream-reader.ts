import type { Readable } from 'node:stream'
import { after, systemClock } from '../time.js'
import { SharedReadSocket, SOCKET_READ_BYTES, sharedMemory } from './shared-reads.js'

/** The receiver does not accept more bytes. */
export const REFUSED = -1

export interface StreamReceiver {
  /**
   * Takes at least one of the bytes, which are valid only during the call, and returns how many it took, or REFUSED.
   * The remaining bytes are passed again when there is room.
   */
  take(bytes: Buffer): number
  /** Resolves when there may be room for more, and never rejects. Undefined if there is room now. */
  room(): Promise<void> | undefined
}

export interface ReadLimits {
  readonly signal?: AbortSignal | undefined
  /** Returns the maximum time without bytes, in milliseconds; undefined: no limit. Called again after each read. */
  readonly idleMs?: (() => number | undefined) | undefined
}

/** Why reading stopped. ended: the stream has ended or failed. refused: the receiver refused bytes. */
export type Stopped = 'ended' | 'idle' | 'aborted' | 'refused'

/** If a stream has small buffers, a read of this size or more waits for more data. Both are passed together. */
const LARGE_READ_BYTES = 16 * 1024
/** Limit of the bytes that wait for more data, for all streams. */
const MOST_GATHERED_BYTES = 16 * 1024 * 1024
let gatheredBytes = 0

/** Maximum bytes read from one socket before other sockets have their turn. */
const MOST_IN_TURN_BYTES = 256 * 1024

/** Minimum time until a stream is idle. Data on its way to this process arrives within this time. */
const LEAST_IDLE_MS = 1

/** Calls `fn` in the next turn of the event loop. The returned function cancels the call. */
const afterTurn = (fn: () => void): (() => void) => {
  const immediate = setImmediate(fn)
  return () => clearImmediate(immediate)
}

const ENDS = ['end', 'error', 'close'] as const

/**
 * Passes on the bytes of a stream as fast as there is room. Without room, it keeps at most one read. Reads only while
 * `read` is pending. Call `release` at the end.
 */
export class StreamReader {
  readonly #stream: Readable
  readonly #receiver: StreamReceiver
  readonly #shared: SharedReadSocket | undefined
  /** Bytes that were read but not passed on. */
  #held: Buffer[] = []
  #heldBytes = 0
  #isBlocked = false
  #hasEnded: boolean
  #limits: ReadLimits = {}
  /** Settles the pending `read`. */
  #stop: ((how: Stopped | Error) => void) | undefined
  #reads = 0
  /** Total bytes of consecutive reads that filled the memory, so that more may remain to be read. */
  #inTurn = 0
  #lastAt = 0
  #idleAt = Number.POSITIVE_INFINITY
  #cancelIdle: (() => void) | undefined

  constructor(stream: Readable, receiver: StreamReceiver) {
    this.#stream = stream
    this.#receiver = receiver
    this.#hasEnded = stream.readableEnded || stream.destroyed
    if (stream instanceof SharedReadSocket) {
      this.#shared = stream
      stream.receive = bytes => this.#received(bytes)
    } else stream.on('readable', this.#drain)
    for (const name of ENDS) stream.on(name, this.#ended)
  }

  /** Reads until one of the reasons in `Stopped` occurs. Rejects if the receiver throws. */
  read(limits: ReadLimits = {}): Promise<Stopped> {
    this.#limits = limits
    const { signal } = limits
    const abort = () => this.#stop?.('aborted')
    const stopped = new Promise<Stopped>((resolve, reject) => {
      this.#stop = how => {
        this.#stop = undefined
        this.#shared?.pause()
        this.#stopIdle()
        signal?.removeEventListener('abort', abort)
        if (how instanceof Error) reject(how)
        else resolve(how)
      }
    })
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) abort()
    else this.#go()
    return stopped
  }

  /** Passes on the remaining bytes and releases the stream for other readers. */
  async release(): Promise<void> {
    for (const name of ENDS) this.#stream.off(name, this.#ended)
    this.#stream.off('readable', this.#drain)
    while (this.#heldBytes > 0) {
      for (let room; (room = this.#receiver.room()); ) await room
      this.#pass(this.#unheld())
    }
  }

  #go(): void {
    if (this.#receiver.room()) this.#block()
    else if (this.#heldBytes === 0 || this.#take(this.#unheld())) this.#resume()
  }

  #resume(): void {
    this.#lastAt = systemClock.now()
    this.#watchIdle()
    if (this.#hasEnded) this.#ended()
    else if (this.#shared) this.#shared.resume()
    else this.#drain()
  }

  #block(): void {
    if (this.#isBlocked) return
    this.#isBlocked = true
    this.#stopIdle()
    void this.#wait()
  }

  async #wait(): Promise<void> {
    for (let room; (room = this.#receiver.room()); ) await room
    this.#isBlocked = false
    if (this.#stop) this.#go()
  }

  #received(bytes: Buffer): boolean {
    if (this.#stop && !this.#receiver.room()) return this.#take(bytes) && this.#mayReadOn(bytes.length)
    this.#hold(Buffer.from(bytes))
    this.#block()
    return false
  }

  /** Whether to read on now. libuv may read 32 times in a row, while other sockets wait and memory grows. */
  #mayReadOn(bytes: number): boolean {
    this.#inTurn = bytes < this.#shared!.readBytes ? 0 : this.#inTurn + bytes
    if (this.#inTurn < MOST_IN_TURN_BYTES) return true
    this.#inTurn = 0
    afterTurn(() => {
      if (this.#stop && !this.#isBlocked) this.#go()
    })
    return false
  }

  /** Passes on bytes. Returns whether to continue reading. */
  #take(bytes: Buffer): boolean {
    this.#reads++
    try {
      this.#pass(bytes)
    } catch (error) {
      this.#stop?.(error as Error)
    }
    if (!this.#stop) return false
    // Without room, reading stops, because further bytes would have to be kept.
    if (this.#heldBytes > 0 || this.#receiver.room()) {
      this.#block()
      return false
    }
    if (this.#limits.idleMs) {
      this.#lastAt = systemClock.now()
      this.#watchIdle()
    }
    return true
  }

  #pass(bytes: Buffer): void {
    const taken = this.#receiver.take(bytes)
    if (taken === REFUSED) this.#stop?.('refused')
    else if (taken < bytes.length) this.#hold(Buffer.from(bytes.subarray(taken)))
  }

  #hold(bytes: Buffer): void {
    this.#held.push(bytes)
    this.#heldBytes += bytes.length
    gatheredBytes += bytes.length
  }

  #unheld(): Buffer {
    const [parts, size] = [this.#held, this.#heldBytes]
    this.#held = []
    this.#heldBytes = 0
    gatheredBytes -= size
    if (parts.length === 1) return parts[0]!
    const all = size <= SOCKET_READ_BYTES ? sharedMemory() : Buffer.allocUnsafe(size)
    let at = 0
    for (const part of parts) at += part.copy(all, at)
    return all.subarray(0, size)
  }

  /** Reads a stream that has its own buffers. */
  readonly #drain = () => {
    while (this.#stop && !this.#isBlocked) {
      if (this.#receiver.room()) return this.#block()
      const bytes = this.#stream.read() as Buffer | string | null
      if (bytes === null && this.#heldBytes === 0) return
      if (bytes !== null) {
        this.#hold(typeof bytes === 'string' ? Buffer.from(bytes) : bytes)
        const mayGather = !this.#hasEnded && this.#heldBytes < SOCKET_READ_BYTES && gatheredBytes < MOST_GATHERED_BYTES
        if (bytes.length >= LARGE_READ_BYTES && mayGather) return void afterTurn(this.#drain)
      }
      this.#take(this.#unheld())
    }
  }

  readonly #ended = () => {
    this.#hasEnded = true
    if (this.#isBlocked) return
    if (!this.#shared) this.#drain()
    if (!this.#isBlocked) this.#stop?.('ended')
  }

  /** Returns the time at which the stream will have been idle for too long if no bytes arrive. */
  #idleAfter(): number {
    return this.#lastAt + Math.max(LEAST_IDLE_MS, this.#limits.idleMs?.() ?? Number.POSITIVE_INFINITY)
  }

  #watchIdle(): void {
    const at = this.#idleAfter()
    // A timer that fires too early is set again.
    if (this.#cancelIdle && this.#idleAt <= at) return
    this.#stopIdle()
    if (at === Number.POSITIVE_INFINITY) return
    this.#idleAt = at
    this.#cancelIdle = after(Math.max(0, at - systemClock.now()), () => this.#maybeIdle())
  }

  /**
   * After a stall, timers run before I/O, so this waits for two immediates. Data that has arrived is read before the
   * first immediate, so the sender has room to send more. This further data is read before the second immediate.
   */
  #maybeIdle(): void {
    const reads = this.#reads
    const decide = () => {
      this.#cancelIdle = undefined
      if (this.#reads === reads && systemClock.now() >= this.#idleAfter()) this.#stop?.('idle')
      else this.#watchIdle()
    }
    this.#cancelIdle = afterTurn(() => {
      this.#cancelIdle = afterTurn(decide)
    })
  }

  #stopIdle(): void {
    this.#cancelIdle?.()
    this.#cancelIdle = undefined
  }
}
