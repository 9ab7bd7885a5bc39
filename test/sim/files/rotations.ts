import type { FileNode } from '../disk.js'
import type { World } from '../world.js'
import type { Log } from './log.js'
import type { Program } from './programs.js'

/** How a log is rotated. */
export interface Rotation {
  readonly how: 'rename' | 'copy' | 'kubelet' | 'docker'
  /** How many rotated files are kept. */
  readonly keep: number
  /** How likely a rotated file is compressed. */
  readonly gzip: number
  /** A smaller file is not rotated. */
  readonly leastBytes: number
  /** Rotations without a pause. */
  readonly inARow: number
  readonly everyMs: number
  /** How long the program takes at most until it opens its log again. Rotations in a row do not wait for it. */
  readonly reopensMs: number
  /** Whether a file may be deleted before all of it is delivered. */
  readonly deletesUnread: boolean
}

/** What happened in a world, by its kind. */
export interface Deeds {
  rotations: number
  copies: number
  gzips: number
  deletedUnread: number
}

const SECOND_MS = 1000

/** Rotates a log again and again. */
export class Rotator {
  readonly #log: Log
  readonly #world: World
  readonly #rotation: Rotation
  readonly #deeds: Deeds
  /** Whether a saved position of the log exists. A source does not search for files that were rotated before. */
  readonly #isKnown: () => boolean

  constructor(log: Log, world: World, rotation: Rotation, deeds: Deeds, isKnown: () => boolean) {
    this.#log = log
    this.#world = world
    this.#rotation = rotation
    this.#deeds = deeds
    this.#isKnown = isKnown
  }

  *run(): Program {
    const { random } = this.#world
    const { everyMs, inARow } = this.#rotation
    while (!this.#log.isOver) {
      yield everyMs * (0.3 + random.next())
      for (let i = 1 + random.below(inARow); i > 0 && !this.#log.isOver; i--) {
        if (!this.#mayRotate()) break
        this.#deeds.rotations++
        yield* this.#rotate(i > 1)
        yield random.next() * 10
      }
    }
  }

  get #folder() {
    return this.#log.folder
  }

  #mayRotate(): boolean {
    const { leastBytes, deletesUnread } = this.#rotation
    if (!this.#isKnown()) return false
    const current = this.#folder.file(this.#log.name)
    if (!current || current.size < leastBytes) return false
    if (this.#doomed().some(name => this.#log.has(this.#folder.file(name)))) return false
    const isUnread = this.#doomed().some(name => !this.#folder.ledger.isDelivered(this.#folder.file(name)!))
    if (isUnread && deletesUnread) this.#deeds.deletedUnread++
    return !isUnread || deletesUnread
  }

  /** The files that the next rotation deletes. */
  #doomed(): string[] {
    const { how, keep } = this.#rotation
    const { name } = this.#log
    if (how === 'kubelet') return this.#dated().slice(0, -(keep - 1))
    return [`${name}.${keep}`, `${name}.${keep}.gz`].filter(one => this.#folder.file(one))
  }

  /** Rotated files of kubelet, the oldest first. */
  #dated(): string[] {
    return this.#folder.names.filter(name => name.startsWith(`${this.#log.name}.2`) && !name.endsWith('.tmp'))
  }

  /** `isHasty`: the next rotation follows at once. */
  *#rotate(isHasty: boolean): Program {
    const { how } = this.#rotation
    if (how === 'rename') yield* this.#rename(isHasty)
    else if (how === 'copy') yield* this.#copyAndTruncate()
    else if (how === 'docker') yield* this.#docker()
    else yield* this.#kubelet()
  }

  /** A little time between two calls of a program. */
  get #moment(): number {
    const { random } = this.#world
    return random.chance(0.5) ? 0 : random.next() * (random.chance(0.1) ? 200 : 2)
  }

  /** app.log.1 becomes app.log.2, and so on; the last one is deleted. */
  *#shift(): Program {
    const { name } = this.#log
    const { keep } = this.#rotation
    for (let k = keep; k > 0; k--) {
      for (const end of ['', '.gz']) {
        const from = `${name}.${k}${end}`
        if (!this.#folder.file(from)) continue
        if (k === keep) this.#folder.remove(from)
        else this.#folder.rename(from, `${name}.${k + 1}${end}`)
        yield this.#moment
      }
    }
  }

  *#rename(isHasty: boolean): Program {
    const { random } = this.#world
    const { name } = this.#log
    const { reopensMs } = this.#rotation
    yield* this.#shift()
    this.#folder.rename(name, `${name}.1`)
    yield this.#moment
    if (random.chance(0.7) && !this.#folder.file(name)) this.#folder.make(name)
    yield this.#moment
    this.#log.signal(reopensMs && random.next() * reopensMs)
    if (reopensMs > 0 && isHasty) return
    yield* this.#log.reopened()
    yield* this.#compressOne()
  }

  /** Compresses the newest rotated file, or with delaycompress the one before it. */
  *#compressOne(): Program {
    const { random } = this.#world
    if (!random.chance(this.#rotation.gzip)) return
    const name = `${this.#log.name}.${random.chance(0.5) ? 1 : 2}`
    yield this.#moment
    if (this.#folder.file(name)) yield* this.#compress(name, `${name}.gz`)
  }

  *#compress(name: string, to: string, writesTo = to): Program {
    const { random } = this.#world
    const original = this.#folder.file(name)!
    if (this.#folder.file(to)) this.#folder.remove(to)
    const made = this.#folder.hold(this.#folder.make(writesTo))
    this.#deeds.gzips++
    const bytes = this.#folder.zipped(original)
    this.#folder.ledger.compress(original, made)
    yield this.#moment
    const parts = 1 + random.below(3)
    for (let part = 1; part <= parts; part++) {
      this.#folder.append(made, bytes.subarray(made.size, Math.floor((bytes.length * part) / parts)))
      yield this.#moment
    }
    if (random.chance(0.6)) this.#folder.keepTimes(made, original)
    yield this.#moment
    if (writesTo !== to) this.#folder.rename(writesTo, to)
    this.#folder.release(made)
    this.#folder.remove(name)
  }

  *#copyAndTruncate(): Program {
    const { random } = this.#world
    const { name } = this.#log
    yield* this.#shift()
    const original = this.#folder.file(name)!
    const copy = this.#folder.hold(this.#folder.make(`${name}.1`))
    this.#deeds.copies++
    yield this.#moment
    if (random.chance(0.5)) {
      this.#folder.fill(copy, original, random.below(original.size))
      yield this.#moment
    }
    this.#folder.fill(copy, original, original.size)
    this.#log.tear()
    this.#log.isCopied = true
    if (random.chance(0.5)) yield* this.#meanwhile(copy, original)
    this.#log.tear()
    this.#log.isCopied = false
    this.#folder.truncate(original)
    this.#folder.release(copy)
    yield this.#moment
    yield* this.#compressOne()
  }

  /** Time between a copy and the truncation, in which lines are written and the source may look. */
  *#meanwhile(copy: FileNode, original: FileNode): Program {
    const { random } = this.#world
    yield random.next() * (random.chance(0.3) ? 3000 : 30)
    if (random.chance(0.3)) this.#folder.keepTimes(copy, original)
  }

  /** Docker writes the log itself: no line is being written while it rotates. */
  *#docker(): Program {
    const { name } = this.#log
    yield* this.#shift()
    yield* this.#log.betweenLines()
    this.#folder.rename(name, `${name}.1`)
    this.#folder.make(name)
    this.#log.reopenNow()
    if (this.#rotation.gzip === 0) return
    yield this.#moment
    yield* this.#compress(`${name}.1`, `${name}.1.gz`)
  }

  /** Compresses all rotated files but the newest, deletes the oldest, and rotates the log. */
  *#kubelet(): Program {
    const { name } = this.#log
    for (const old of this.#doomed()) {
      this.#folder.remove(old)
      yield this.#moment
    }
    const rotated = this.#dated()
    for (const old of rotated) {
      if (old.endsWith('.gz') || this.#rotation.gzip === 0) continue
      yield* this.#compress(old, `${old}.gz`, `${old}.tmp`)
    }
    let to = `${name}.${stamp()}`
    while (this.#folder.file(to) || this.#folder.file(`${to}.gz`)) {
      yield SECOND_MS
      to = `${name}.${stamp()}`
    }
    this.#folder.rename(name, to)
    yield this.#moment
    this.#log.signal(0)
    yield* this.#log.reopened()
  }
}

/** YYYYMMDD-HHMMSS */
function stamp(): string {
  const [day, time] = new Date(Date.now()).toISOString().split('T') as [string, string]
  return `${day.replaceAll('-', '')}-${time.slice(0, 8).replaceAll(':', '')}`
}
