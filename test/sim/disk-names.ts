import { FileNode, FolderNode, failed, Tree } from './disk.js'
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

/** Calls that are needed to remove what a failed write left. */
const REPAIRS = new Set(['read', 'fstat', 'ftruncate'])

export type Kind = 'writes' | 'syncs' | 'names' | 'reads'

/** The calls about names. */
export class DiskNames {
  readonly world: World
  readonly tree = new Tree()
  faults: Faults = { ...NO_FAULTS }
  calls = 0
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

  /** Throws what this call fails with. */
  protected mayFail(kind: Kind, call: string, path: string): void {
    this.calls++
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
    const made = new FolderNode(this.tree.nextIno(), this.world.now)
    folder.change(names => names.set(name, made))
  }

  list(path: string): string[] {
    this.mayFail('reads', 'readdir', path)
    return [...this.tree.folder(path, 'readdir').names.keys()].sort()
  }

  rename(from: string, to: string): void {
    this.mayFail('names', 'rename', from)
    const [old, own] = [this.tree.place(from, 'rename'), this.tree.place(to, 'rename')]
    const node = old.folder.names.get(old.name)
    if (!node) throw failed('ENOENT', 'rename', from)
    const there = own.folder.names.get(own.name)
    if (there === node) return
    if (there instanceof FolderNode && there.names.size > 0) throw failed('ENOTEMPTY', 'rename', to)
    if (there instanceof FileNode) there.names--
    if (old.folder === own.folder) {
      old.folder.change(names => {
        names.delete(old.name)
        names.set(own.name, node)
      })
    } else {
      own.folder.change(names => names.set(own.name, node))
      old.folder.change(names => names.delete(old.name))
    }
  }

  unlink(path: string): void {
    this.mayFail('names', 'unlink', path)
    const { folder, name } = this.tree.place(path, 'unlink')
    const node = folder.names.get(name)
    if (!node) throw failed('ENOENT', 'unlink', path)
    if (node instanceof FolderNode) throw failed('EISDIR', 'unlink', path)
    node.names--
    folder.change(names => names.delete(name))
  }

  link(from: string, to: string): void {
    this.mayFail('names', 'link', from)
    const node = this.tree.at(from)
    if (!(node instanceof FileNode)) throw failed('ENOENT', 'link', from)
    const { folder, name } = this.tree.place(to, 'link')
    if (folder.names.has(name)) throw failed('EEXIST', 'link', to)
    node.names++
    folder.change(names => names.set(name, node))
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
    folder.change(names => names.delete(name))
  }
}
