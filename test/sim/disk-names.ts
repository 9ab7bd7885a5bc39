import type { Seeded } from '../support/seeded.js'
import { FileNode, FolderNode, failed, type Node, Tree } from './disk.js'
import type { Opened } from './disk-calls.js'
import type { World } from './world.js'

/** What goes wrong with a disk for a while. */
export interface Faults {
  /** Bytes that fit on it. */
  capacity: number
  /** How likely a call fails, by what it does. */
  writes: number
  syncs: number
  names: number
  reads: number
  /** How likely a write writes less than it was asked to. */
  short: number
  /** How long a call takes at most. */
  latencyMs: number
}

export const NO_FAULTS: Faults = {
  capacity: Number.POSITIVE_INFINITY,
  writes: 0,
  syncs: 0,
  names: 0,
  reads: 0,
  short: 0,
  latencyMs: 2,
}

/** How a disk is made. */
export interface Habits {
  /** Whether birth times are stored. If not, they are 0. */
  births: 'stored' | 'zero'
  /** Whether inodes of files that are gone are given away again. */
  reusesInodes: boolean
  /** Whether lists of folders are in any order. */
  shufflesLists: boolean
  /** How far apart the times are that it can write down. */
  tickMs: number
  /** Whether folders can be watched. */
  isWatched: boolean
}

type Report = (type: 'change' | 'rename', name: string) => void

const PLAIN: Habits = { births: 'stored', reusesInodes: false, shufflesLists: false, tickMs: 0, isWatched: true }

/** Calls that are needed to remove what a failed write left. */
const REPAIRS = new Set(['read', 'fstat', 'ftruncate'])

export type Kind = 'writes' | 'syncs' | 'names' | 'reads'

/** The calls about names. */
export class DiskNames {
  readonly world: World
  readonly tree = new Tree()
  faults: Faults = { ...NO_FAULTS }
  habits: Habits = { ...PLAIN }
  calls = 0
  /** Called before each call of the process. It may change the disk, end the process, or throw. */
  beforeCall: (call: string, path: string, opened?: Opened) => void = () => {}
  #isOutside = false
  readonly #watches = new Map<FolderNode, Set<Report>>()
  /** How many calls of the present process failed that would have repaired a file. */
  readonly failedRepairs = new Map<string, number>()
  /**
   * What could not be read in the present process: the content of a file, or the file itself, once each. What cannot be
   * read in three attempts is left out, with the events in it.
   */
  protected readonly readFaults = new Set<string>()

  constructor(world: World) {
    this.world = world
  }

  /** What the disk writes down as the present time. */
  get time(): number {
    const { tickMs } = this.habits
    return tickMs === 0 ? this.world.now : this.world.now - (this.world.now % tickMs)
  }

  protected nextIno(): number {
    return this.tree.nextIno(this.habits.reusesInodes && this.world.random.chance(0.7))
  }

  /** Reports changes in the folder until the result is called. */
  watch(path: string, onEvent: (type: string, name: string) => void): () => void {
    this.mayFail('reads', 'watch', path)
    if (!this.habits.isWatched) throw failed('ENOSPC', 'watch', path)
    const folder = this.tree.folder(path, 'watch')
    const { world } = this
    const report: Report = (type, name) => world.after(world.random.next() * 2, () => onEvent(type, name), true)
    const watches = this.#watches.get(folder) ?? new Set()
    this.#watches.set(folder, watches.add(report))
    return () => watches.delete(report)
  }

  protected forgetWatches(): void {
    this.#watches.clear()
  }

  protected changeNames(folder: FolderNode, change: (names: Map<string, Node>) => void, ...changed: string[]): void {
    folder.change(this.time, change)
    for (const report of this.#watches.get(folder) ?? []) for (const name of changed) report('rename', name)
  }

  /** The content of the file has changed. */
  written(node: FileNode): void {
    node.changedAt = this.time
    node.statusAt = this.time
    for (const [folder, reports] of this.#watches)
      for (const [name, at] of folder.names) if (at === node) for (const report of reports) report('change', name)
  }

  /** Lets others than the process use the disk: no call of theirs fails or is counted. */
  outside<T>(work: () => T): T {
    const wasOutside = this.#isOutside
    this.#isOutside = true
    try {
      return work()
    } finally {
      this.#isOutside = wasOutside
    }
  }

  /** Throws what this call fails with. */
  protected mayFail(kind: Kind, call: string, path: string, opened?: Opened): void {
    if (this.#isOutside) return
    this.calls++
    this.beforeCall(call, path, opened)
    const likely = this.faults[kind]
    if (likely === 0 || !this.world.random.chance(likely)) return
    if (kind === 'reads') {
      const one = `${call === 'read' ? 'content' : 'file'} of ${path}`
      if (this.readFaults.has(one)) return
      this.readFaults.add(one)
    }
    this.fail(call, path)
  }

  protected fail(call: string, path: string): never {
    this.world.say(() => `disk: ${call} ${path} fails with EIO`)
    this.world.fault(`EIO ${call}`)
    if (REPAIRS.has(call)) this.failedRepairs.set(path, (this.failedRepairs.get(path) ?? 0) + 1)
    throw failed('EIO', call, path)
  }

  /** Throws when not even a name fits. */
  protected needRoom(path: string): void {
    if (this.room() <= 0) throw failed('ENOSPC', 'open', path)
  }

  protected room(): number {
    const { capacity } = this.faults
    return capacity === Number.POSITIVE_INFINITY ? capacity : capacity - this.tree.bytes()
  }

  makeFolder(path: string): void {
    this.mayFail('names', 'mkdir', path)
    const { folder, name } = this.tree.place(path, 'mkdir')
    if (folder.names.has(name)) throw failed('EEXIST', 'mkdir', path)
    this.needRoom(path)
    const made = new FolderNode(this.tree.nextIno(), this.time)
    this.changeNames(folder, names => names.set(name, made), name)
  }

  list(path: string): string[] {
    this.mayFail('reads', 'readdir', path)
    const names = [...this.tree.folder(path, 'readdir').names.keys()].sort()
    return this.habits.shufflesLists ? shuffled(names, this.world.random) : names
  }

  rename(from: string, to: string): void {
    this.mayFail('names', 'rename', from)
    const [old, own] = [this.tree.place(from, 'rename'), this.tree.place(to, 'rename')]
    const node = old.folder.names.get(old.name)
    if (!node) throw failed('ENOENT', 'rename', from)
    const there = own.folder.names.get(own.name)
    if (there === node) return
    if (there instanceof FolderNode && there.names.size > 0) throw failed('ENOTEMPTY', 'rename', to)
    if (there instanceof FileNode) this.#unname(there)
    if (node instanceof FileNode) node.statusAt = this.time
    if (old.folder === own.folder) {
      const change = (names: Map<string, Node>) => {
        names.delete(old.name)
        names.set(own.name, node)
      }
      this.changeNames(old.folder, change, old.name, own.name)
    } else {
      this.changeNames(own.folder, names => names.set(own.name, node), own.name)
      this.changeNames(old.folder, names => names.delete(old.name), old.name)
    }
  }

  unlink(path: string): void {
    this.mayFail('names', 'unlink', path)
    const { folder, name } = this.tree.place(path, 'unlink')
    const node = folder.names.get(name)
    if (!node) throw failed('ENOENT', 'unlink', path)
    if (node instanceof FolderNode) throw failed('EISDIR', 'unlink', path)
    this.#unname(node)
    this.changeNames(folder, names => names.delete(name), name)
  }

  #unname(node: FileNode): void {
    node.names--
    node.statusAt = this.time
    this.tree.free(node)
  }

  link(from: string, to: string): void {
    this.mayFail('names', 'link', from)
    const node = this.tree.at(from)
    if (!(node instanceof FileNode)) throw failed('ENOENT', 'link', from)
    const { folder, name } = this.tree.place(to, 'link')
    if (folder.names.has(name)) throw failed('EEXIST', 'link', to)
    node.names++
    node.statusAt = this.time
    this.changeNames(folder, names => names.set(name, node), name)
  }

  remove(path: string, { recursive = false, force = false }: { recursive?: boolean; force?: boolean } = {}): void {
    const node = this.tree.at(path)
    if (!node) {
      if (force) return
      throw failed('ENOENT', 'rm', path)
    }
    if (node instanceof FileNode) {
      this.unlink(path)
      return
    }
    if (!recursive) throw failed('ERR_FS_EISDIR', 'rm', path)
    for (const name of [...node.names.keys()]) this.remove(`${path}/${name}`, { recursive, force })
    this.removeFolder(path)
  }

  removeFolder(path: string): void {
    this.mayFail('names', 'rmdir', path)
    if (this.tree.folder(path, 'rmdir').names.size > 0) throw failed('ENOTEMPTY', 'rmdir', path)
    const { folder, name } = this.tree.place(path, 'rmdir')
    this.changeNames(folder, names => names.delete(name), name)
  }
}

function shuffled(names: readonly string[], random: Seeded): string[] {
  const mixed = [...names]
  for (let i = mixed.length - 1; i > 0; i--) {
    const other = random.below(i + 1)
    ;[mixed[i], mixed[other]] = [mixed[other]!, mixed[i]!]
  }
  return mixed
}
