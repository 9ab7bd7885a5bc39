import type { Task, World } from '../world.js'

/** What a program does, step by step. It yields the milliseconds until its next step. */
export type Program = Generator<number, void, void>

/** A longer pause is a pause, and not the speed of a program. */
const PAUSE_MS = 300

/** The programs that write and rotate logs. They run beside the source, also in the middle of its calls. */
export class Programs {
  readonly #world: World
  readonly #next = new Map<Program, Task>()

  constructor(world: World) {
    this.#world = world
  }

  get areOver(): boolean {
    return this.#next.size === 0
  }

  start(program: Program): void {
    this.#plan(program, 0)
  }

  #plan(program: Program, ms: number): void {
    this.#next.set(
      program,
      this.#world.after(ms, () => this.#step(program)),
    )
  }

  #step(program: Program): void {
    this.#next.get(program)!.isOver = true
    this.#next.delete(program)
    const { done, value } = program.next()
    if (!done) this.#plan(program, value)
  }

  /** Takes all steps whose time has come while a call of the source lasted. */
  catchUp(): void {
    for (;;) {
      const first = this.#first()
      if (!first || first[1].at > this.#world.now) return
      this.#step(first[0])
    }
  }

  /** Takes a step that comes soon. */
  hurry(): void {
    const first = this.#first()
    if (first && first[1].at - this.#world.now < PAUSE_MS) this.#step(first[0])
  }

  #first(): [Program, Task] | undefined {
    let first: [Program, Task] | undefined
    for (const one of this.#next) if (!first || isBefore(one[1], first[1])) first = one
    return first
  }
}

function isBefore(a: Task, b: Task): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
