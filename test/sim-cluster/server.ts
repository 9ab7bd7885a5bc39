import type { RedisConnection } from '../../src/net/redis/connection.js'
import { ScriptModel } from '../support/script-model.js'
import type { Seeded } from '../support/seeded.js'
import type { World } from './world.js'

/** How bad the network is. */
export interface Network {
  /** Mean delay of a message, in milliseconds. */
  readonly delayMs: number
  /** How often a message is lost and its connection breaks. */
  readonly loss: number
}

/** A simulated server, with a network that delays messages and breaks connections. */
export class SimulatedServer {
  /** When it lost all buckets. */
  readonly losses: number[] = []
  /** Further milliseconds before each reply. */
  slowMs = 0
  readonly #world: World
  readonly #random: Seeded
  readonly #network: Network
  readonly #model = new ScriptModel()
  readonly #breaks = new Set<() => void>()
  #isDown = false
  /** What a stopped server will execute when it continues. */
  #stopped: (() => void)[] | undefined

  constructor(world: World, random: Seeded, network: Network) {
    this.#world = world
    this.#random = random
    this.#network = network
  }

  /** As SIGSTOP: what was received is executed later. */
  stop(): void {
    this.#stopped = []
  }

  continue(): void {
    const waiting = this.#stopped ?? []
    this.#stopped = undefined
    for (const execute of waiting) execute()
  }

  kill(): void {
    this.#isDown = true
    this.#model.clear()
    this.losses.push(this.#world.now)
    for (const fail of this.#breaks) fail()
  }

  restart(): void {
    this.#isDown = false
  }

  /** `executed` is called with the server's time before each reply. */
  async connect(lost: (error: Error) => void, executed: (at: number) => void): Promise<RedisConnection> {
    await this.#pass(this.#delay())
    if (this.#isDown) throw new Error('connect ECONNREFUSED')
    const pending = new Set<(error: Error) => void>()
    let isOpen = true
    const fail = () => {
      if (!isOpen) return
      close()
      lost(new Error('the connection broke'))
    }
    const close = () => {
      isOpen = false
      this.#breaks.delete(fail)
      for (const reject of pending) reject(new Error('the connection is closed'))
    }
    this.#breaks.add(fail)
    let [arrives, replies] = [0, 0]
    const command = (args: readonly (string | Buffer)[]) =>
      new Promise<unknown>((resolve, reject) => {
        if (!isOpen) return reject(new Error('the connection is closed'))
        pending.add(reject)
        if (this.#random.chance(this.#network.loss)) return void this.#world.at(this.#world.now + this.#delay(), fail)
        const execute = () => {
          if (this.#isDown) return
          const at = this.#world.now
          const reply = this.#execute(args)
          if (this.#random.chance(this.#network.loss)) return fail()
          replies = Math.max(replies, at + this.#delay() + this.slowMs)
          this.#world.at(replies, () => {
            if (!isOpen) return
            executed(at)
            pending.delete(reject)
            resolve(reply)
          })
        }
        // What was sent before a connection is closed still arrives.
        arrives = Math.max(arrives, this.#world.now + this.#delay())
        this.#world.at(arrives, () => (this.#stopped ? this.#stopped.push(execute) : execute()))
      })
    return { isCluster: false, command: (_key, args) => command(args), destroy: close }
  }

  #execute(args: readonly (string | Buffer)[]): (number | string)[] {
    const count = Number(args[2])
    const buffers = args.slice(3) as Buffer[]
    return this.#model.execute(buffers.slice(0, count), buffers.slice(count), Math.floor(this.#world.now * 1000))
  }

  #delay(): number {
    const { delayMs } = this.#network
    const tail = this.#random.chance(0.01) ? delayMs * 30 : 0
    return 0.05 - delayMs * Math.log(1 - this.#random.next()) + tail
  }

  #pass(ms: number): Promise<void> {
    return new Promise(resolve => void this.#world.at(this.#world.now + ms, resolve))
  }
}
