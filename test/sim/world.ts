import { Seeded } from '../support/seeded.js'
import { runsRealTurns } from './real.js'
import { type Size, sizeOf } from './size.js'

/** Something that happens at a virtual time. */
export interface Task {
  readonly at: number
  readonly order: number
  readonly run: () => void
  /** Of the simulated process: it is dropped when that is killed. */
  readonly ofProcess: boolean
  isOver: boolean
}

/** What ended a run that must not go on. */
export class Violation extends Error {}

/** Virtual milliseconds in which nothing may fail to come to its end. */
const LONGEST_MS = 24 * 3_600_000
/** More than any run needs: beyond it something turns in a circle. */
const MOST_TASKS = 400_000

/**
 * One simulated machine: its clock, its chance, and everything that is going to happen on it, in order. Between two tasks all
 * promises and ticks that follow from the first are done, so a seed decides everything.
 */
export class World {
  readonly seed: number
  readonly random: Seeded
  readonly size: Size
  now = 0
  /** What happened, where it is wanted. */
  readonly trace: string[] | undefined
  readonly violations: string[] = []
  /** How often each kind of fault happened. */
  readonly faults = new Map<string, number>()
  tasks = 0
  #order = 0
  readonly #heap: Task[] = []
  /** Whether there is a process. What one that was killed still asks for never happens. */
  isAlive = false
  /** How many were killed so far. */
  killed = 0
  /** Called when the process is killed. */
  onKilled: () => void = () => {}

  constructor(seed: number, traced = false) {
    this.seed = seed
    this.random = new Seeded(seed * 2_654_435_761)
    this.size = sizeOf(this.random)
    this.trace = traced ? [] : undefined
  }

  say(text: () => string): void {
    this.trace?.push(`${(this.now / 1000).toFixed(3).padStart(9)}  ${text()}`)
  }

  /** Counts a fault of this kind. */
  fault(kind: string): void {
    this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1)
  }

  /** Something that must never happen has happened. */
  violate(text: string): void {
    if (this.violations.length < 20) this.violations.push(text)
    this.say(() => `VIOLATION ${text}`)
  }

  after(ms: number, run: () => void, ofProcess = false): Task {
    const task = {
      at: this.now + Math.max(0, ms),
      order: this.#order++,
      run,
      ofProcess,
      isOver: ofProcess && !this.isAlive,
    }
    if (!task.isOver) this.#push(task)
    return task
  }

  /** Resolves when so much time has passed, whatever becomes of the process. */
  wait(ms: number): Promise<void> {
    return new Promise(resolve => this.after(ms, resolve))
  }

  /** How many tasks of the process are left. */
  get pending(): number {
    return this.#heap.filter(task => task.ofProcess && !task.isOver).length
  }

  /** The process ends at this moment: nothing that it waits for comes to it. */
  kill(): void {
    this.isAlive = false
    this.killed++
    for (const task of this.#heap) if (task.ofProcess) task.isOver = true
    this.onKilled()
  }

  /** Lets things happen until the work is done. Rejects when nothing is left to happen before that. */
  async run(work: Promise<void>): Promise<void> {
    let isDone = false
    let failure: unknown
    work.then(
      () => {
        isDone = true
      },
      error => {
        failure = error
        isDone = true
      },
    )
    await runsRealTurns(() => {
      if (isDone) return false
      if (this.#step()) return true
      if (!isDone) failure ??= new Violation('nothing is left to happen, and the run is not over')
      return false
    })
    if (failure) throw failure
  }

  #step(): boolean {
    let task = this.#pop()
    while (task?.isOver) task = this.#pop()
    if (!task) return false
    if (task.at > LONGEST_MS || this.tasks > MOST_TASKS) {
      this.violate(`it does not come to its end: ${this.tasks} tasks, ${Math.round(this.now / 1000)} s`)
      return false
    }
    task.isOver = true
    // Calls of the disk may have taken some time since.
    this.now = Math.max(this.now, task.at)
    this.tasks++
    task.run()
    return true
  }

  #push(task: Task): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(task)
    while (at > 0) {
      const above = (at - 1) >> 1
      if (!isBefore(task, heap[above]!)) break
      heap[at] = heap[above]!
      at = above
    }
    heap[at] = task
  }

  #pop(): Task | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (heap.length === 0 || !last) return first
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      if (below >= heap.length) break
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below++
      if (!isBefore(heap[below]!, last)) break
      heap[at] = heap[below]!
      at = below
    }
    heap[at] = last
    return first
  }
}

function isBefore(a: Task, b: Task): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
