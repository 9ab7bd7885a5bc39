import { gzipSync } from 'node:zlib'
import { FileNode } from '../disk.js'
import type { Disk } from '../disk-calls.js'
import type { World } from '../world.js'
import type { Ledger } from './ledger.js'

const HEADER_TIME_AT = 4

/** A folder of logs, as the programs that write and rotate them use it. */
export class LogFolder {
  readonly path: string
  readonly ledger: Ledger
  /** The names under which programs write. */
  readonly logs = new Set<string>()
  readonly #disk: Disk
  readonly #world: World
  /** How much of each file the source has seen by a stat of its name. */
  readonly #seen = new Map<FileNode, number>()
  /** The files that it has opened by their names. A stat alone may be followed by a rename. */
  readonly #opened = new Set<FileNode>()
  /** The files of which it has read content that they still have. */
  readonly #read = new Set<FileNode>()

  constructor(path: string, disk: Disk, ledger: Ledger) {
    this.path = path
    this.ledger = ledger
    this.#disk = disk
    this.#world = disk.world
  }

  #at(name: string): string {
    return `${this.path}/${name}`
  }

  file(name: string): FileNode | undefined {
    const node = this.#disk.tree.at(this.#at(name))
    return node instanceof FileNode ? node : undefined
  }

  get names(): string[] {
    const names = [...this.#disk.tree.folder(this.path, 'readdir').names.keys()]
    return names.sort()
  }

  /** The source asks for the stat of a path, opens or reads it. Under the name of a log, it has found the file. */
  seen(path: string, call: string): void {
    if (!this.logs.has(path.slice(this.path.length + 1))) return
    const node = this.#disk.tree.at(path)
    if (!(node instanceof FileNode)) return
    if (call === 'read' && node.size > 0) this.#read.add(node)
    if (call === 'stat' || call === 'open') this.#seen.set(node, node.size)
    if (call === 'open') this.#opened.add(node)
  }

  /** Whether it has found the file under the name of a log. */
  hasOpened(node: FileNode): boolean {
    return this.#opened.has(node)
  }

  #bytesSeen(node: FileNode): number {
    return this.hasOpened(node) ? (this.#seen.get(node) ?? 0) : 0
  }

  make(name: string): FileNode {
    this.#disk.outside(() => this.#disk.close(this.#disk.openFile(this.#at(name), 'wx')))
    this.#say(`create ${name}`)
    return this.file(name)!
  }

  /** A program has the file open: its inode is not given away. */
  hold(node: FileNode): FileNode {
    node.opened++
    return node
  }

  release(node: FileNode): void {
    node.opened--
    this.#disk.tree.free(node)
  }

  append(node: FileNode, bytes: Buffer): void {
    node.write(node.size, [bytes], bytes.length)
    this.#disk.written(node)
  }

  rename(from: string, to: string): void {
    this.#forgetSeen(this.file(to))
    const node = this.logs.has(from) ? this.file(from) : undefined
    if (node) this.ledger.takesAway(node, this.#bytesSeen(node))
    this.#disk.outside(() => this.#disk.rename(this.#at(from), this.#at(to)))
    this.#say(`rename ${from} ${to}`)
  }

  remove(name: string): void {
    this.#forgetSeen(this.file(name))
    this.#disk.outside(() => this.#disk.unlink(this.#at(name)))
    this.#say(`remove ${name}`)
  }

  #forgetSeen(node: FileNode | undefined): void {
    if (!node) return
    this.ledger.takesAway(node, this.#bytesSeen(node))
    this.#seen.delete(node)
  }

  truncate(node: FileNode): void {
    // A size alone shows nothing once the file is as long again.
    if (!this.#read.delete(node)) this.#seen.delete(node)
    this.#forgetSeen(node)
    node.resize(0)
    this.#disk.written(node)
    this.ledger.clear(node)
    this.#say(`truncate #${node.ino}`)
  }

  /** The file has the first bytes of the other one, or all of them. */
  fill(node: FileNode, from: FileNode, bytes: number): void {
    const more = from.content.subarray(node.size, bytes)
    if (more.length > 0) this.append(node, Buffer.from(more))
    this.ledger.copy(from, node, bytes)
  }

  /** The bytes of a gzip file with the content of this one. Most programs write no time into it. */
  zipped(of: FileNode): Buffer {
    const bytes = gzipSync(of.content, { level: 1 })
    if (this.#world.random.chance(0.3)) {
      const second = Math.floor(Date.now() / 1000 - (this.#world.now - of.changedAt) / 1000)
      bytes.writeUInt32LE(second, HEADER_TIME_AT)
    }
    return bytes
  }

  /** The file gets the times of the other one, as gzip and cp -p do it. */
  keepTimes(node: FileNode, of: FileNode): void {
    node.changedAt = of.changedAt
    node.statusAt = this.#disk.time
  }

  #say(text: string): void {
    this.#world.say(() => `${text}   [${this.show()}]`)
  }

  show(): string {
    return this.names.map(name => `${name}#${this.file(name)?.ino}:${this.file(name)?.size}`).join(' ')
  }
}
