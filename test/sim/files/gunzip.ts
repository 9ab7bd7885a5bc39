import { EventEmitter } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import zlib from 'node:zlib'
import { currentWorld } from '../globals.js'

/**
 * Inflates gzip in virtual time. The streams of node:zlib use other threads, whose answers come in any order. Import it
 * before everything that is simulated.
 */

/** How long inflating a portion takes at most, in virtual milliseconds. */
export const slowness = { ms: 1 }

type Done = (error?: Error) => void

/** The part of a Gunzip stream that the product uses. */
class VirtualGunzip extends EventEmitter {
  #fed = Buffer.alloc(0)
  /** How many inflated bytes were emitted. */
  #made = 0
  #isDestroyed = false

  write(bytes: Buffer, done: Done): void {
    this.#fed = Buffer.concat([this.#fed, bytes])
    this.#later(() => {
      this.#emit(zlib.constants.Z_SYNC_FLUSH)
      done()
    })
  }

  end(): void {
    this.#later(() => {
      // Without input there is nothing to complain about, as in node:zlib.
      if (this.#fed.length > 0) this.#emit(zlib.constants.Z_FINISH)
      this.emit('end')
    })
  }

  /** Its output always comes at once. */
  readonly readableLength = 0

  pause(): this {
    return this
  }

  resume(): this {
    return this
  }

  destroy(): void {
    this.#isDestroyed = true
  }

  #emit(finishFlush: number): void {
    const all = zlib.gunzipSync(this.#fed, { finishFlush })
    const part = all.subarray(this.#made)
    this.#made = all.length
    if (part.length > 0) this.emit('data', part)
  }

  #later(work: () => void): void {
    const world = currentWorld()!
    const run = () => {
      if (this.#isDestroyed) return
      try {
        work()
      } catch (error) {
        this.emit('error', error)
      }
    }
    world.after(world.random.next() * slowness.ms, run, true)
  }
}

const { createGunzip } = zlib
const simulated = (options?: zlib.ZlibOptions) => (currentWorld() ? new VirtualGunzip() : createGunzip(options))
// It cannot be assigned to.
Object.defineProperty(zlib, 'createGunzip', { configurable: true, enumerable: true, value: simulated })
syncBuiltinESMExports()
