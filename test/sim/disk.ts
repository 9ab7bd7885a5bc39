import type { Seeded } from '../support/seeded.js'

/** Files and folders of a simulated disk, and what of them is left when the power fails. */

/** A write that is not safe yet, or a change of the size. */
type Change = { readonly at: number; readonly bytes: Buffer } | { readonly size: number }

export class FileNode {
  readonly ino: number
  readonly birth: number
  changedAt: number
  content: Buffer = Buffer.alloc(0)
  /** What is left after the power failed. */
  safe: Buffer = Buffer.alloc(0)
  /** What a sync makes safe. */
  changes: Change[] = []
  names = 0
  opened = 0

  constructor(ino: number, at: number) {
    this.ino = ino
    this.birth = at
    this.changedAt = at
  }

  change(change: Change): void {
    this.content = applied(this.content, change)
    this.changes.push(change)
  }

  sync(): void {
    this.safe = this.content
    this.changes = []
  }

  /** Of what was not synced any part may be there. */
  powerFailed(random: Seeded): void {
    let content = this.safe
    for (const change of this.changes) {
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
    this.content = content
    this.safe = content
    this.changes = []
  }
}

function applied(content: Buffer, change: Change): Buffer {
  if ('size' in change) return Buffer.concat([content.subarray(0, change.size)], change.size)
  if (change.at === content.length) return Buffer.concat([content, change.bytes])
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
  names: Names = new Map()
  #safe: Names = new Map()
  /** What a sync makes safe, in order. */
  #changes: ((names: Names) => void)[] = []

  constructor(ino: number, at: number) {
    this.ino = ino
    this.birth = at
  }

  /** One atomic change of the names. */
  change(change: (names: Names) => void): void {
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

export const failed = (code: string, syscall: string, path: string) => new DiskError(code, syscall, path)

/** The names of a path and what they lead to. No links but hard ones. */
export class Tree {
  root = new FolderNode(1, 0)
  #lastIno = 1

  nextIno(): number {
    return ++this.#lastIno
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
    const names = namesOf(path)
    const name = names.pop()
    if (name === undefined) throw failed('EEXIST', call, path)
    return { folder: this.folder(names.join('/'), call), name }
  }

  /** Bytes of all files that have a name. */
  bytes(): number {
    const seen = new Set<Node>()
    const count = (node: Node): number => {
      if (seen.has(node)) return 0
      seen.add(node)
      if (node instanceof FileNode) return node.content.length
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

function namesOf(path: string): string[] {
  return path.split('/').filter(name => name !== '' && name !== '.')
}
