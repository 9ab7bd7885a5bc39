import { Seeded } from '../../support/seeded.js'
import { FileNode, type Node, PlannedError } from '../disk.js'
import type { Disk, Opened } from '../disk-calls.js'
import type { Ledger } from './ledger.js'
import type { Style } from './log.js'

/** Errors of single calls, once or for a while. They are drawn apart: without them, a world is the same. */

/** What a kind of error is about: one file, what has it open, a name, the folder, or every file. */
type About = 'file' | 'descriptors' | 'name' | 'folder' | 'all'

interface Kind {
  readonly about: About
  readonly calls: readonly string[]
  readonly codes: readonly string[]
}

const KINDS: readonly Kind[] = [
  { about: 'file', calls: ['read'], codes: ['EIO', 'ESTALE'] },
  { about: 'file', calls: ['read', 'fstat'], codes: ['EIO', 'ESTALE'] },
  { about: 'file', calls: ['fstat'], codes: ['EIO', 'ESTALE'] },
  { about: 'file', calls: ['open'], codes: ['EACCES', 'EIO'] },
  { about: 'file', calls: ['open', 'read', 'fstat'], codes: ['EIO'] },
  { about: 'descriptors', calls: ['read', 'fstat'], codes: ['ESTALE', 'ENOTCONN'] },
  { about: 'name', calls: ['stat'], codes: ['EACCES', 'EIO'] },
  { about: 'name', calls: ['open'], codes: ['EACCES', 'EIO'] },
  { about: 'folder', calls: ['readdir'], codes: ['EACCES', 'EIO'] },
  { about: 'all', calls: ['open', 'readdir'], codes: ['EMFILE', 'ENFILE'] },
  { about: 'all', calls: ['stat', 'open', 'readdir'], codes: ['EACCES'] },
]

/** Calls that fail as a stat does. */
const AS_STAT = new Set(['lstat', 'realpath', 'readlink'])
/** An error of one call that is never made is over. */
const LONGEST_MS = 30_000

interface Error extends Kind {
  readonly code: string
  readonly at: number
  /** 0: it is of one call, behind so many others. */
  readonly ms: number
  skips: number
  /** The file and the name that it is about. */
  node?: Node | undefined
  path?: string | undefined
  isBegun: boolean
  isOver: boolean
}

export class Errors {
  readonly #disk: Disk
  readonly #folder: string
  readonly #ledger: Ledger
  readonly #random: Seeded
  #left: Error[] = []

  constructor(seed: number, { lines, everyMs }: Style, folder: string, disk: Disk, ledger: Ledger) {
    this.#disk = disk
    this.#folder = folder
    this.#ledger = ledger
    const random = new Seeded(seed * 40_503 + 977)
    this.#random = random
    for (let left = random.pick([1, 2, 4, 8, 16]); left > 0; left--) {
      const kind = random.pick(KINDS)
      const ms = random.pick([0, 0, 50, 500, 3000, 8000]) * random.next()
      const at = random.next() * lines * everyMs * 1.3
      const code = random.pick(kind.codes)
      this.#left.push({ ...kind, code, at, ms, skips: random.below(random.pick([1, 4, 40])), ...BEFORE })
    }
  }

  /** Throws what this call of the source fails with. */
  check(call: string, path: string, opened?: Opened): void {
    const { world } = this.#disk
    const { now } = world
    if (opened?.broken !== undefined) this.#fail(opened.broken, call, path, opened.node)
    if (this.#left.length === 0) return
    for (const error of this.#left) if (!error.isBegun && error.at <= now) this.#begin(error)
    this.#left = this.#left.filter(one => !one.isOver && now < one.at + (one.ms || LONGEST_MS))
    const name = AS_STAT.has(call) ? 'stat' : call
    for (const error of this.#left) {
      if (!error.isBegun || !error.calls.includes(name)) continue
      const node = opened ? opened.node : this.#disk.tree.at(path)
      if (!this.#isAbout(error, call, path, node)) continue
      if (error.ms === 0 && error.skips-- > 0) continue
      error.isOver = error.ms === 0
      this.#fail(error.code, call, path, node)
    }
  }

  #begin(error: Error): void {
    const { world, tree } = this.#disk
    error.isBegun = true
    const files = [...tree.files(this.#folder)].sort(([a], [b]) => a.length - b.length)
    // The one with the shortest name is written.
    const isShortest = this.#random.chance(0.5)
    const [path, node] = this.#random.pick(files.slice(0, isShortest ? 1 : files.length)) ?? []
    Object.assign(error, { path, node })
    const { about, code, calls, ms, skips } = error
    world.say(
      () => `--- ${code} of ${calls} about ${about} ${path}#${node?.ino} ${ms > 0 ? `for ${ms} ms` : `after ${skips}`}`,
    )
    if (about !== 'descriptors') return
    if (node) this.#disk.breakOpened(node, code)
    error.isOver = true
  }

  #isAbout({ about, node, path }: Error, call: string, of: string, nodeOf: Node | undefined): boolean {
    if (about === 'file') return node !== undefined && nodeOf === node
    if (about === 'name') return of === path
    return call === 'readdir' ? of === this.#folder : about === 'all' && of.startsWith(`${this.#folder}/`)
  }

  #fail(code: string, call: string, path: string, node: Node | undefined): never {
    this.#disk.world.say(() => `${call} ${path} fails with ${code}`)
    for (const one of node instanceof FileNode ? [node] : this.#disk.tree.files(this.#folder).values())
      this.#ledger.refused(one)
    throw new PlannedError(code, call, path)
  }
}

const BEFORE = { isBegun: false, isOver: false }
