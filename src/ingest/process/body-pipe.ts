import { Socket } from 'node:net'
import type { BodyBytes } from '../../http/events/send-body.js'
import { bodyRoom, freeBody, takeBody } from '../../http/server/body-memory.js'

/** Where a process finds it among its descriptors, behind the channel of its calls. */
export const BODY_FD = 4
/** As much as a read of it gives at most. */
const PART_BYTES = 256 * 1024

interface Wanted {
  readonly bytes: Buffer
  readonly size: number
  readonly resolve: (body: BodyBytes) => void
  readonly reject: (error: Error) => void
}

/**
 * The bodies of the calls `take`, one after the other in their order. They come beside the calls: the channel of `fork`
 * would copy each of them several times. What was read is put in its place at once, so that nothing is left to collect.
 */
export class BodyPipe {
  readonly #part = Buffer.allocUnsafeSlow(PART_BYTES)
  readonly #socket: Socket
  readonly #wanted: Wanted[] = []
  /** Of the first one that is wanted. */
  #got = 0
  /** What has come before its call, in `#part`. */
  #rest = { from: 0, to: 0 }

  constructor(fd: number) {
    const callback = (bytes: number) => this.#read(bytes)
    this.#socket = new Socket({ fd, readable: true, onread: { buffer: this.#part, callback } } as object)
    this.#socket.on('error', () => this.#socket.destroy())
    this.#socket.on('close', () => {
      for (const { reject } of this.#wanted.splice(0)) reject(new Error('the service is gone'))
    })
    this.#socket.unref()
    this.#socket.resume()
  }

  /** The next body; there is room for a byte more. */
  next(size: number): Promise<BodyBytes> {
    return new Promise((resolve, reject) => {
      this.#wanted.push({ bytes: takeBody(bodyRoom(size + 1)), size, resolve, reject })
      if (this.#wanted.length === 1 && this.#take()) this.#socket.resume()
    })
  }

  /** Whether the buffer may be used again. */
  #read(bytes: number): boolean {
    this.#rest = { from: 0, to: bytes }
    return this.#take()
  }

  /** Whether everything that has come has its place. */
  #take(): boolean {
    for (let wanted = this.#wanted[0]; wanted; wanted = this.#wanted[0]) {
      const { from, to } = this.#rest
      const end = Math.min(to, from + wanted.size - this.#got)
      this.#part.copy(wanted.bytes, this.#got, from, end)
      this.#got += end - from
      this.#rest.from = end
      if (this.#got < wanted.size) break
      this.#got = 0
      this.#wanted.shift()
      const { bytes } = wanted
      wanted.resolve({ bytes, release: () => freeBody(bytes) })
    }
    return this.#rest.from === this.#rest.to
  }
}
