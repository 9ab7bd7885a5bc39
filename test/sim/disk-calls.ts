import { constants } from 'node:fs'
import { DiskError, FileNode, FolderNode, failed, type Node, PlannedError } from './disk.js'
import { DiskNames, type Kind } from './disk-names.js'

/** A file that is open. */
export interface Opened {
  readonly node: Node
  /** What each call with this descriptor fails with. */
  broken?: string
}

interface Open extends Opened {
  readonly path: string
  readonly appends: boolean
  /** Whether no call with this descriptor succeeds any more. */
  isDead: boolean
}

/** How likely a descriptor is useless after a call with it has failed: the file has to be opened again. */
const DEADLY = 0.1

const { O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND } = constants
const FLAGS: Record<string, number> = {
  r: 0,
  'r+': O_RDWR,
  w: O_WRONLY | O_CREAT | O_TRUNC,
  wx: O_WRONLY | O_CREAT | O_TRUNC | O_EXCL,
  'w+': O_RDWR | O_CREAT | O_TRUNC,
  a: O_WRONLY | O_CREAT | O_APPEND,
  'a+': O_RDWR | O_CREAT | O_APPEND,
}
const FIRST_FD = 1_000_000

/** The system calls of a simulated disk. One process at a time uses it. */
export class Disk extends DiskNames {
  /** Another one for each process, so that nothing that the program remembers of files outlives a process. */
  device = 1
  readonly #open = new Map<number, Open>()
  #nextFd = FIRST_FD
  /** The process is killed in the middle of so many further calls; undefined: it is not. */
  killAfter: number | undefined
  /** The process is killed in the middle of a write, after so many others; undefined: it is not. */
  killAfterWrites: number | undefined
  /** Whether another thread makes the call. */
  #isLater = false
  /** Whether the process ends in the middle of the call that is being made. */
  #isLast = false

  /** The files that are open, by their paths. */
  get opened(): string[] {
    return [...this.#open.values()].map(({ path }) => path)
  }

  /** The present descriptors of the file fail from now on. */
  breakOpened(node: Node, code: string): void {
    for (const open of this.#open.values()) if (open.node === node) open.broken = code
  }

  killed(): void {
    for (const { node } of this.#open.values()) this.#release(node)
    this.#open.clear()
    this.forgetWatches()
    this.failedRepairs.clear()
    this.readFaults.clear()
    this.killAfter = undefined
    this.killAfterWrites = undefined
    this.#isLast = false
  }

  powerFailed(): void {
    this.killed()
    this.tree.root.powerFailed(this.world.random)
  }

  openFile(path: string, flags: string | number = 'r'): number {
    const bits = typeof flags === 'number' ? flags : FLAGS[flags]
    if (bits === undefined) throw new Error(`simulated disk: unknown flags ${flags}`)
    this.mayFail(bits & O_CREAT ? 'names' : 'reads', 'open', path)
    let node = this.tree.at(path)
    if (node && bits & O_EXCL && bits & O_CREAT) throw failed('EEXIST', 'open', path)
    if (!node) {
      if (!(bits & O_CREAT)) throw failed('ENOENT', 'open', path)
      const { folder, name } = this.tree.place(path, 'open')
      this.needRoom(path)
      const made = new FileNode(this.nextIno(), this.time)
      made.names = 1
      this.changeNames(folder, names => names.set(name, made), name)
      node = made
    }
    if (node instanceof FolderNode && bits & (O_WRONLY | O_RDWR)) throw failed('EISDIR', 'open', path)
    if (node instanceof FileNode) {
      node.opened++
      if (bits & O_TRUNC && node.size > 0) node.resize(0)
    }
    const fd = this.#nextFd++
    this.#open.set(fd, { node, path, appends: (bits & O_APPEND) !== 0, isDead: false })
    return fd
  }

  #fd(fd: number, call: string): Open {
    const open = this.#open.get(fd)
    if (!open) throw failed('EBADF', call, String(fd))
    return open
  }

  #file(fd: number, call: string): Open & { node: FileNode } {
    const open = this.#fd(fd, call)
    const { node } = open
    if (!(node instanceof FileNode)) throw failed('EISDIR', call, open.path)
    return open as Open & { node: FileNode }
  }

  #mayFailOn(open: Open, kind: Kind, call: string): void {
    try {
      if (open.isDead) this.fail(call, open.path)
      this.mayFail(kind, call, open.path, open)
    } catch (error) {
      if (!(error instanceof PlannedError)) open.isDead ||= this.world.random.chance(DEADLY)
      throw error
    }
  }

  close(fd: number): void {
    this.#release(this.#fd(fd, 'close').node)
    this.#open.delete(fd)
  }

  #release(node: Node): void {
    if (!(node instanceof FileNode)) return
    node.opened--
    this.tree.free(node)
  }

  read(fd: number, into: Uint8Array, from: number, length: number, at: number): number {
    const open = this.#file(fd, 'read')
    this.#mayFailOn(open, 'reads', 'read')
    return open.node.read(into, from, length, at)
  }

  /** Returns how much it wrote, which may be less than all. */
  write(fd: number, parts: readonly Uint8Array[], at: number | null): number {
    const open = this.#file(fd, 'write')
    const { node, path, appends } = open
    this.#mayFailOn(open, 'writes', 'write')
    const start = appends || at === null ? node.size : at
    const bytes = parts.reduce((sum, { length }) => sum + length, 0)
    let size = bytes
    const more = start + size - node.size
    const room = more > 0 ? this.room() : more
    if (more > room) {
      size -= more - Math.max(0, room)
      if (size <= 0) {
        this.world.say(() => `disk: write ${path} fails with ENOSPC`)
        this.world.fault('ENOSPC write')
        throw failed('ENOSPC', 'write', path)
      }
    }
    if (this.#isLater && this.killAfterWrites !== undefined) this.#isLast ||= --this.killAfterWrites < 0
    if (this.#isLast) size = this.world.random.below(size + 1)
    else if (size > 1 && this.faults.short > 0 && this.world.random.chance(this.faults.short))
      size = 1 + this.world.random.below(size - 1)
    if (size < bytes) {
      this.world.say(() => `disk: write ${path}: ${size} of ${bytes} bytes`)
      this.world.fault(this.#isLast ? 'killed in a write' : 'short write')
    }
    node.write(start, parts, size)
    this.written(node)
    return size
  }

  truncate(fd: number, size = 0): void {
    const open = this.#file(fd, 'ftruncate')
    this.#mayFailOn(open, 'writes', 'ftruncate')
    open.node.resize(size)
    this.written(open.node)
  }

  sync(fd: number): void {
    const open = this.#fd(fd, 'fsync')
    const { node } = open
    try {
      this.#mayFailOn(open, 'syncs', 'fsync')
    } catch (error) {
      if (node instanceof FileNode) node.syncFailed()
      throw error
    }
    node.sync()
  }

  nodeOf(fd: number): Node {
    const open = this.#fd(fd, 'fstat')
    this.#mayFailOn(open, 'reads', 'fstat')
    return open.node
  }

  stat(path: string, call = 'stat'): Node {
    this.mayFail('reads', call, path)
    const node = this.tree.at(path)
    if (!node) throw failed('ENOENT', call, path)
    return node
  }

  /** A call that another thread makes: its result comes later. It may be the last that the process makes. */
  later<T>(work: () => T): Promise<T> {
    const { world } = this
    return new Promise((resolve, reject) => {
      const call = () => {
        const isLast = this.killAfter !== undefined && --this.killAfter < 0
        if (isLast) world.fault('killed in a call')
        // Killed before or after the call has had its effect.
        if (isLast && world.random.chance(0.5)) return world.kill()
        this.#isLast = isLast
        this.#isLater = true
        try {
          const result = work()
          if (this.#isLast) world.kill()
          else resolve(result)
        } catch (error) {
          if (!(error instanceof DiskError)) world.violate(`simulated disk: ${(error as Error).stack}`)
          if (this.#isLast) world.kill()
          else reject(error)
        } finally {
          this.#isLater = false
        }
      }
      world.after(0.01 + world.random.next() ** 2 * this.faults.latencyMs, call, true)
    })
  }
}
