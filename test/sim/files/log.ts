import type { FileNode } from '../disk.js'
import type { World } from '../world.js'
import type { Line } from './ledger.js'
import type { LogFolder } from './log-folder.js'
import type { Program } from './programs.js'

const NEVER = Number.POSITIVE_INFINITY

/** How a program writes its log. */
export interface Style {
  readonly lines: number
  /** Milliseconds between two writes. */
  readonly everyMs: number
  readonly leastBytes: number
  readonly mostBytes: number
  /** Lines of a burst. */
  readonly burst: number
  /** How likely a line is written in parts, and the longest pause in it. */
  readonly inParts: number
  readonly pauseMs: number
}

/** A log that a program writes to, and its name. */
export class Log {
  readonly name: string
  readonly id: string
  readonly folder: LogFolder
  readonly #world: World
  readonly #style: Style
  #node: FileNode | undefined
  /** From when on the program opens the name again before its next line. */
  #reopensAt = NEVER
  /** The line that is being written. */
  #current: { readonly line: Line; left: Buffer } | undefined
  /** Whether what is written now may be lost: a copy was made, and the truncation has not been yet. */
  isCopied = false
  isOver = false

  constructor(id: string, name: string, folder: LogFolder, world: World, style: Style) {
    this.id = id
    this.name = name
    this.folder = folder
    this.#world = world
    this.#style = style
    folder.logs.add(name)
  }

  /** Writes all lines. */
  *write(): Program {
    const { random } = this.#world
    const { lines, everyMs, burst, inParts, pauseMs } = this.#style
    for (let left = lines; left > 0; ) {
      const count = Math.min(left, 1 + (random.chance(0.3) ? random.below(burst) : 0))
      left -= count
      for (let i = 0; i < count; i++) {
        this.begin()
        if (random.chance(inParts)) {
          const parts = 1 + random.below(3)
          for (let part = 0; part < parts; part++) {
            this.part(random.next())
            yield random.next() * pauseMs
          }
        }
        this.part(1)
      }
      yield everyMs * (0.2 + random.next()) * (random.chance(0.1) ? 10 : 1)
    }
    this.isOver = true
    if (this.#node) this.folder.release(this.#node)
    this.#node = undefined
  }

  begin(): void {
    const { random } = this.#world
    const { leastBytes, mostBytes } = this.#style
    if (this.#reopensAt <= this.#world.now || !this.#node) this.#open()
    const line = this.folder.ledger.next(this.id, leastBytes + random.below(mostBytes - leastBytes + 1))
    this.#current = { line, left: Buffer.from(`${line.text}\n`) }
  }

  #open(): void {
    if (this.#node) this.folder.release(this.#node)
    this.#node = this.folder.hold(this.folder.file(this.name) ?? this.folder.make(this.name))
    this.#reopensAt = NEVER
  }

  /** Writes this share of the rest of the line. */
  part(share: number): void {
    const current = this.#current!
    const { line, left } = current
    const bytes = share === 1 ? left.length : Math.floor(left.length * share)
    if (bytes === 0) return
    if (this.isCopied) line.isOptional = true
    this.folder.append(this.#node!, left.subarray(0, bytes))
    current.left = left.subarray(bytes)
    if (current.left.length > 0) return
    line.isLate = this.folder.file(this.name) !== this.#node
    if (line.isLate && !this.folder.hasOpened(this.#node!)) line.wasSeen = false
    this.folder.ledger.put(this.#node!, line)
    this.#current = undefined
    this.#world.say(
      () => `write ${line.log}-${line.number} to #${this.#node!.ino}${line.isOptional ? ', may be lost' : ''}`,
    )
  }

  /** The copy of the file ends here, or the file is truncated here: a line that has begun is torn. */
  tear(): void {
    const { line, left } = this.#current ?? {}
    if (!line || left!.length > line.text.length) return
    line.isOptional = true
    this.folder.ledger.tore(line)
  }

  /** Tells the program to open its log again, as logrotate does by a signal. It may take a while. */
  signal(ms: number): void {
    this.#reopensAt = Math.min(this.#reopensAt, this.#world.now + ms)
  }

  /** Waits until the program has opened its log again. A program that writes nothing opens it, too. */
  *reopened(): Program {
    const { now, random } = this.#world
    const left = this.#reopensAt === NEVER ? 0 : Math.max(0, this.#reopensAt - now)
    yield left + 1 + random.next() * 5
    yield* this.betweenLines()
    if (this.#reopensAt !== NEVER) this.reopenNow()
  }

  /** Whether the program has this file open. */
  has(node: FileNode | undefined): boolean {
    return node !== undefined && node === this.#node
  }

  /** Waits until no line is being written. */
  *betweenLines(): Program {
    while (this.#current) yield 5
  }

  reopenNow(): void {
    if (!this.isOver) this.#open()
  }
}
