import type { Seeded } from '../support/seeded.js'

/** Files and folders of a simulated disk, and what of them is left when the power fails. */

/** A write that is not safe yet, or a change of the size. */
type Change = { readonly at: number; readonly bytes: Buffer } | { readonly size: number }

/** What random bytes are in a simulated process. A file that begins with them only counts them. */
export const ZEROS = Buffer.alloc(2 * 1024 * 1024)

/** Bytes of a file that never change; what is appended goes behind them, into the same memory. */
interface Content {
  /** How many zeros there are in front. */
  readonly zeros: number
  readonly memory: Buffer
  /** How much of the memory belongs to this. */
  readonly used: number
}

const PAGE = 4096
const EMPTY: Content = { zeros: 0, memory: Buffer.alloc(0), used: 0 }

export class FileNode {
  readonly ino: number
  readonly birth: number
  changedAt: number
  /** When its content, its times or its names changed last. */
  statusAt: number
  #content = EMPTY
  /** Where the memory of the content is free. */
  #free = 0
  /** What is left after the power failed. */
  #safe = EMPTY
  /** What a sync makes safe. */
  #changes: Change[] = []
  /** Whether something of the content never reaches the disk. */
  #isApart = false
  names = 0
  opened = 0

  constructor(ino: number, at: number) {
    this.ino = ino
    this.birth = at
    this.changedAt = at
    this.statusAt = at
  }

  get size(): number {
    return sizeOf(this.#content)
  }

  get content(): Buffer {
    return bytesOf(this.#content)
  }

  /** Copies bytes from `at` on; returns how many there were. */
  read(into: Uint8Array, from: number, length: number, at: number): number {
    const { zeros, memory, used } = this.#content
    if (at < zeros) {
      const part = this.content.subarray(at, at + length)
      into.set(part, from)
      return part.length
    }
    if (at >= zeros + used) return 0
    return memory.copy(into, from, at - zeros, Math.min(used, at - zeros + length))
  }

  write(at: number, parts: readonly Uint8Array[], size: number): void {
    if (at === this.size && this.#content.used === 0 && parts.length === 1 && parts[0]!.buffer === ZEROS.buffer) {
      this.#content = { ...this.#content, zeros: at + size }
      this.#changes.push({ at, bytes: ZEROS.subarray(0, size) })
      return
    }
    if (this.#content.zeros > 0 && at !== this.size) this.#replace(this.content)
    const { zeros, memory, used } = this.#content
    const start = at - zeros
    const end = start + size
    const isBehind = start === used && used === this.#free && end <= memory.length
    const own = isBehind ? memory : this.#copied(start, end)
    let place = start
    for (const part of parts) {
      own.set(part.subarray(0, end - place), place)
      place += Math.min(part.length, end - place)
    }
    this.#content = { zeros, memory: own, used: Math.max(used, end) }
    this.#free = this.#content.used
    this.#changes.push({ at, bytes: own.subarray(start, end) })
  }

  /** New memory with the content and room up to `end`, and for more where it is appended to. */
  #copied(start: number, end: number): Buffer {
    const { memory, used } = this.#content
    const own = Buffer.allocUnsafe(start >= used ? 2 * end : Math.max(used, end))
    memory.copy(own, 0, 0, used)
    if (start > used) own.fill(0, used, start)
    return own
  }

  resize(size: number): void {
    this.#changes.push({ size })
    const { zeros, memory, used } = this.#content
    if (size >= zeros && size - zeros <= used) this.#content = { zeros, memory, used: size - zeros }
    else this.#replace(applied(this.content, { size }))
  }

  #replace(bytes: Buffer): void {
    this.#content = { zeros: 0, memory: bytes, used: bytes.length }
    this.#free = bytes.length
  }

  sync(): void {
    if (this.#isApart) {
      let safe = bytesOf(this.#safe)
      for (const change of this.#changes) safe = applied(safe, 'bytes' in change ? this.#pagesOf(change) : change)
      this.#safe = { zeros: 0, memory: safe, used: safe.length }
    } else this.#safe = this.#content
    this.#changes = []
  }

  /** The system writes whole pages. */
  #pagesOf({ at, bytes }: { readonly at: number; readonly bytes: Buffer }): Change {
    const { content } = this
    const start = at - (at % PAGE)
    const end = Math.ceil((at + bytes.length) / PAGE) * PAGE
    return content.length < at + bytes.length ? { at, bytes } : { at: start, bytes: content.subarray(start, end) }
  }

  /** The system takes what it could not write for written: no later sync writes that. */
  syncFailed(): void {
    if (this.#changes.length > 0) this.#isApart = true
    this.#changes = []
  }

  /** Of what was not synced any part may be there. */
  powerFailed(random: Seeded): void {
    if (this.#changes.length > 0 || this.#safe !== this.#content) {
      let content = bytesOf(this.#safe)
      for (const change of this.#changes) {
        const fate = random.next()
        if (fate < 0.4) content = applied(content, change)
        else if (fate < 0.7 && 'bytes' in change) {
          const part = change.bytes.subarray(0, random.below(change.bytes.length + 1))
          content = applied(content, { at: change.at, bytes: part })
          // The size may be there before the bytes are.
          if (random.chance(0.3))
            content = applied(content, { size: Math.max(content.length, change.at + change.bytes.length) })
        }
      }
      this.#replace(content)
    }
    this.#isApart = false
    this.sync()
  }
}

const sizeOf = ({ zeros, used }: Content) => zeros + used

function bytesOf({ zeros, memory, used }: Content): Buffer {
  const bytes = memory.subarray(0, used)
  return zeros === 0 ? bytes : Buffer.concat([Buffer.alloc(zeros), bytes])
}

function applied(content: Buffer, change: Change): Buffer {
  if ('size' in change) return Buffer.concat([content.subarray(0, change.size)], change.size)
  const end = change.at + change.bytes.length
  const grown = Buffer.concat([content], Math.max(content.length, end))
  change.bytes.copy(grown, change.at)
  return grown
}

type Names = Map<string, Node>
export type Node = FileNode | FolderNode

export class FolderNode {
  readonly ino: number
  readonly birth: number
  changedAt: number
  names: Names = new Map()
  #safe: Names = new Map()
  /** What a sync makes safe, in order. */
  #changes: ((names: Names) => void)[] = []

  constructor(ino: number, at: number) {
    this.ino = ino
    this.birth = at
    this.changedAt = at
  }

  /** One atomic change of the names. */
  change(at: number, change: (names: Names) => void): void {
    this.changedAt = at
    change(this.names)
    this.#changes.push(change)
  }

  sync(): void {
    this.#safe = new Map(this.names)
    this.#changes = []
  }

  /** Changes of names reach the disk in order: the first ones may be there. */
  powerFailed(random: Seeded): void {
    const kept = random.below(this.#changes.length + 1)
    for (const change of this.#changes.slice(0, kept)) change(this.#safe)
    this.names = this.#safe
    this.sync()
    for (const node of this.names.values()) node.powerFailed(random)
  }
}

export class DiskError extends Error {
  readonly code: string
  readonly syscall: string
  readonly path: string
  constructor(code: string, syscall: string, path: string) {
    super(`${code}: simulated, ${syscall} '${path}'`)
    this.code = code
    this.syscall = syscall
    this.path = path
  }
}

/** An error of a call that a world planned. */
export class PlannedError extends DiskError {}

export const failed = (code: string, syscall: string, path: string) => new DiskError(code, syscall, path)

/** The names of a path and what they lead to. No links but hard ones. */
export class Tree {
  root = new FolderNode(1, 0)
  #lastIno = 1
  /** Inodes of files that are gone. */
  readonly #free: number[] = []

  /** `reuses`: it may be the inode of a file that is gone. */
  nextIno(reuses = false): number {
    return (reuses ? this.#free.pop() : undefined) ?? ++this.#lastIno
  }

  /** Gives the inode of the file away again if the file has no name, and nobody has it open. */
  free(node: FileNode): void {
    if (node.names === 0 && node.opened === 0) this.#free.push(node.ino)
  }

  at(path: string): Node | undefined {
    let node: Node | undefined = this.root
    for (const name of namesOf(path)) {
      if (!(node instanceof FolderNode)) return undefined
      node = node.names.get(name)
    }
    return node
  }

  folder(path: string, call: string): FolderNode {
    const node = this.at(path)
    if (!node) throw failed('ENOENT', call, path)
    if (!(node instanceof FolderNode)) throw failed('ENOTDIR', call, path)
    return node
  }

  /** The folder that a path is in, and its last name. */
  place(path: string, call: string): { folder: FolderNode; name: string } {
    const name = namesOf(path).at(-1)
    if (name === undefined) throw failed('EEXIST', call, path)
    return { folder: this.folder(path.slice(0, path.lastIndexOf(name)), call), name }
  }

  /** Bytes of all files that have a name. */
  bytes(): number {
    const seen = new Set<Node>()
    const count = (node: Node): number => {
      if (seen.has(node)) return 0
      seen.add(node)
      if (node instanceof FileNode) return node.size
      return [...node.names.values()].reduce((sum, one) => sum + count(one), 0)
    }
    return count(this.root)
  }

  /** Every file below a folder, by its path. */
  files(path: string): Map<string, FileNode> {
    const found = new Map<string, FileNode>()
    const walk = (node: Node | undefined, at: string) => {
      if (node instanceof FileNode) found.set(at, node)
      else if (node) for (const [name, one] of node.names) walk(one, `${at}/${name}`)
    }
    walk(this.at(path), path)
    return found
  }
}

/** Of paths that were asked for before: the same ones come again and again. */
const known = new Map<string, readonly string[]>()
const MOST_KNOWN = 5000

function namesOf(path: string): readonly string[] {
  let names = known.get(path)
  if (names) return names
  if (known.size > MOST_KNOWN) known.clear()
  names = path.split('/').filter(name => name !== '' && name !== '.')
  known.set(path, names)
  return names
}
