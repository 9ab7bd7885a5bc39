/** How far a file is being caught up with: what was in it when its reading began again, after a start or a stall. */
export class CatchUp {
  #end = 0

  /** Everything before this offset is backlog. */
  until(end: number): void {
    this.#end = Math.max(this.#end, end)
  }

  /** Whether what begins at this offset is backlog. */
  includes(offset: number): boolean {
    return offset < this.#end
  }

  /** The part of the `left` bytes from `at` that may be read at once: it ends where catching up ends. */
  portion(at: number, left: number): number {
    return at < this.#end ? Math.min(left, this.#end - at) : left
  }
}
