import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import promises from 'node:timers/promises'
import { ZEROS } from './disk.js'
import type { Task, World } from './world.js'

/**
 * Puts the clock, the timers and chance of a simulated world in the place of those of the process, while there is one. Import it
 * before everything that is simulated.
 */

let world: World | undefined

/** From now on everything happens in this world; undefined: in the real one. */
export function enter(next: World | undefined): void {
  world = next
}

export function currentWorld(): World | undefined {
  return world
}

/** Wall clock at the beginning of every run. */
export const EPOCH = 1_700_000_000_000

/** Work takes no time in a simulated process. */
const NO_CPU: NodeJS.CpuUsage = { user: 0, system: 0 }

/** Timers of the simulated process that are set. */
export const timers = new Set<VirtualTimer>()

class VirtualTimer {
  readonly #world: World
  readonly #run: () => void
  readonly #ms: number
  readonly #repeats: boolean
  #task: Task
  /** Who set it, in a run that is traced. */
  readonly setBy = Error.stackTraceLimit > 0 ? new Error('set').stack : undefined

  constructor(world: World, run: () => void, ms: number, repeats: boolean) {
    this.#world = world
    this.#run = run
    this.#ms = ms
    this.#repeats = repeats
    this.#task = this.#set()
    // Not of a process that was killed.
    if (!this.#task.isOver) timers.add(this)
  }

  #set(): Task {
    const ring = () => {
      if (this.#repeats) this.#task = this.#set()
      else timers.delete(this)
      this.#run()
    }
    return this.#world.after(this.#ms, ring, true)
  }

  clear(): void {
    this.#task.isOver = true
    timers.delete(this)
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  refresh(): this {
    this.#task.isOver = true
    this.#task = this.#set()
    return this
  }

  close(): void {
    this.clear()
  }
}

type AnyFunction = (...args: unknown[]) => void

function timer(real: AnyFunction, repeats: boolean) {
  return (fn: AnyFunction, ms: unknown, ...args: unknown[]) => {
    if (!world) return real(fn as never, ms, ...args)
    return new VirtualTimer(world, () => fn(...args), Math.max(1, Number(ms) || 1), repeats)
  }
}

function clear(real: (timer: unknown) => void) {
  return (set: unknown) => (set instanceof VirtualTimer ? set.clear() : real(set))
}

const real = { ...globalThis, now: Date.now, monotonic: performance.now.bind(performance), chance: Math.random }

const scope = globalThis as unknown as Record<string, unknown>
scope.setTimeout = timer(real.setTimeout as unknown as AnyFunction, false)
scope.setInterval = timer(real.setInterval as unknown as AnyFunction, true)
scope.setImmediate = (fn: AnyFunction, ...args: unknown[]) =>
  world ? world.after(0, () => fn(...args), true) : real.setImmediate(fn as never, ...args)
const { setImmediate: nextTurn } = promises
// A process that was killed waits for ever.
const turn = (value?: unknown) =>
  world ? new Promise(resolve => world!.after(0, () => resolve(value), true)) : nextTurn(value)
promises.setImmediate = turn as typeof nextTurn
scope.clearTimeout = clear(real.clearTimeout as (timer: unknown) => void)
scope.clearInterval = clear(real.clearInterval as (timer: unknown) => void)
scope.clearImmediate = (set: unknown) => {
  if (world && set) (set as Task).isOver = true
  else real.clearImmediate(set as never)
}
Date.now = () => (world ? EPOCH + Math.floor(world.now) : real.now())
performance.now = () => (world ? world.now : real.monotonic())
const cpuUsage = process.cpuUsage
process.cpuUsage = (before?: NodeJS.CpuUsage) => (world ? NO_CPU : cpuUsage.call(process, before))
Math.random = () => (world ? world.random.next() : real.chance())
const randomBytes = crypto.randomBytes
crypto.randomBytes = ((size: number) => (world ? ZEROS.subarray(0, size) : randomBytes(size))) as typeof randomBytes
const randomInt = crypto.randomInt as (below: number) => number
crypto.randomInt = ((below: number) => (world ? 0 : randomInt(below))) as typeof crypto.randomInt
const hostname = os.hostname
os.hostname = () => (world ? 'simulated' : hostname())
syncBuiltinESMExports()
