import {
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Model } from './model.js'
import { type Setup, SLOTS } from './scenario.js'
import type { Content, Line } from './written.js'

/** A file as the system knows it, whatever its names are. */
export class Inode {
  readonly key: string
  content: Content
  /** A program that goes on writing to it. */
  fd: number | undefined

  constructor(key: string, content: Content) {
    this.key = key
    this.content = content
  }
}

/** The logs of a run: does to real files what programs and rotation do, and tells the model what it wrote. */
export class Files {
  readonly logs: string
  readonly targets: string
  readonly archive: string
  readonly #setup: Setup
  readonly #model: Model
  readonly #inodes = new Map<string, Inode>()
  readonly #kept: Inode[] = []
  readonly #seen = new Set<string>()
  #count = 0
  /** How many new files got the inode of one before. */
  reused = 0

  constructor(folder: string, setup: Setup, model: Model) {
    this.#setup = setup
    this.#model = model
    this.logs = join(folder, 'logs')
    this.targets = join(this.logs, 'targets')
    this.archive = join(this.logs, 'archive')
  }

  make(): void {
    mkdirSync(this.targets, { recursive: true })
    mkdirSync(this.archive, { recursive: true })
  }

  /** What the source is told to read. */
  get patterns(): { include: string[]; exclude: string[] } {
    const { glob } = this.#setup
    if (glob === 'listed') return { include: SLOTS.map(name => join(this.logs, `${name}.log`)), exclude: [] }
    if (glob === 'narrow') return { include: [join(this.logs, '*.log')], exclude: [] }
    return { include: [join(this.logs, '*.log*')], exclude: ['*.gz', '*.tmp'] }
  }

  /** Whether the patterns find this name. */
  matches(path: string): boolean {
    if (dirname(path) !== this.logs) return false
    const name = basename(path)
    const { glob } = this.#setup
    if (glob === 'listed') return SLOTS.some(slot => name === `${slot}.log`)
    return glob === 'narrow' ? name.endsWith('.log') : name.includes('.log') && !/\.(gz|tmp)$/.test(name)
  }

  path(slot: number): string {
    return join(this.logs, `${SLOTS[slot]!}.log`)
  }

  /** The file that a name leads to, if the model knows it. */
  at(path: string): Inode | undefined {
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    return stat && this.#inodes.get(`${stat.dev}:${stat.ino}`)
  }

  /** Every file that has a name, and its names; symbolic links are names of what they lead to. */
  named(): Map<Inode, string[]> {
    const found = new Map<Inode, string[]>()
    for (const folder of [this.logs, this.targets, this.archive]) {
      for (const name of readdirSync(folder)) {
        const path = join(folder, name)
        const inode = this.at(path)
        if (!inode) continue
        const paths = found.get(inode)
        if (paths) paths.push(path)
        else found.set(inode, [path])
      }
    }
    return found
  }

  /** Files that the patterns find. */
  matched(): Inode[] {
    return [...this.named()].filter(([, paths]) => paths.some(path => this.matches(path))).map(([inode]) => inode)
  }

  #adopt(path: string): Inode {
    const { dev, ino } = statSync(path, { bigint: true })
    const key = `${dev}:${ino}`
    if (this.#seen.has(key)) this.reused++
    this.#seen.add(key)
    const inode = new Inode(key, this.#model.newContent())
    this.#inodes.set(key, inode)
    return inode
  }

  /** A new file, with nothing but the first line that all have; undefined when the disk is full. */
  create(path: string): Inode | undefined {
    const inode = this.createEmpty(path)
    if (inode && this.#setup.header) this.append(inode, path, { lines: 0, bytes: 0 })
    return inode
  }

  createEmpty(path: string): Inode | undefined {
    try {
      closeSync(openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o644))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return undefined
      throw error
    }
    return this.#adopt(path)
  }

  /** The file under this name, made if it is missing. */
  ensure(path: string): Inode | undefined {
    if (path === this.path(SLOTS.length - 1) && !existsSync(path)) {
      const target = this.newTarget(false)
      if (target === undefined || !this.point(target)) return undefined
    }
    const inode = this.at(path)
    if (inode || existsSync(path)) return inode
    return this.create(path)
  }

  /**
   * Whole lines at the end of a file, after the rest of one that is unfinished, and a part of one more (`tear`: how
   * much of it). In so many writes. On a full disk as much as there is room for.
   */
  append(
    inode: Inode,
    path: string | undefined,
    { lines, bytes, tear = 0, writes = 1 }: { lines: number; bytes: number; tear?: number; writes?: number },
  ): void {
    const { content } = inode
    // Its compressed copy has less than it from now on, and may be taken for another file.
    if (content.compressed) content.copied = true
    const unfinished = content.torn > 0 ? [content.last!.line] : []
    const fresh: Line[] = []
    const add = (size: number | undefined) => fresh.push(this.#model.makeLine(content, fresh.length, size))
    if (this.#setup.header && content.size === 0) add(undefined)
    for (let i = 0; i < lines; i++) add(bytes)
    const made = [...unfinished, ...fresh]
    let end = made.reduce((sum, line) => sum + line.bytes.length, -content.torn)
    if (tear > 0) {
      add(bytes)
      const torn = fresh.at(-1)!
      made.push(torn)
      end += Math.min(torn.bytes.length - 1, Math.max(1, Math.round(torn.bytes.length * tear)))
    }
    const all = Buffer.from(made.map(line => line.bytes).join(''), 'latin1').subarray(content.torn)
    const flags = constants.O_WRONLY | constants.O_APPEND
    const fd = inode.fd ?? openSync(path!, flags)
    let written = 0
    try {
      const portion = Math.max(1, Math.ceil(end / writes))
      while (written < end) written += writeSync(fd, all, written, Math.min(portion, end - written))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    } finally {
      if (inode.fd === undefined) closeSync(fd)
      this.#model.wrote(content, made, written)
    }
  }

  /** A program keeps the file open, to write to it after it was renamed or deleted. */
  keep(inode: Inode, path: string): void {
    if (inode.fd !== undefined) return
    inode.fd = openSync(path, constants.O_WRONLY | constants.O_APPEND)
    this.#kept.push(inode)
    if (this.#kept.length > 3) this.#close(this.#kept.shift()!)
  }

  /** The file kept last. */
  get kept(): Inode | undefined {
    return this.#kept.at(-1)
  }

  closeKept(): void {
    for (const inode of this.#kept.splice(0)) this.#close(inode)
  }

  #close(inode: Inode): void {
    if (inode.fd !== undefined) closeSync(inode.fd)
    inode.fd = undefined
  }

  /** Names of what was rotated from this slot and is still there, the newest first. */
  rotated(slot: number): string[] {
    const name = SLOTS[slot]!
    const own = new RegExp(`^${name}(\\.log\\.\\d+|-\\d+\\.log)$`)
    const found = readdirSync(this.logs).filter(entry => own.test(entry))
    const number = (entry: string) => Number(/\d+/.exec(entry)![0])
    // Numbers count up with age, dates count down.
    const age = (entry: string) => (entry.includes('-') ? 1e9 - number(entry) : number(entry))
    return found.sort((a, b) => age(a) - age(b)).map(entry => join(this.logs, entry))
  }

  /** Where the next rotation puts a file by date. */
  dated(slot: number): string {
    return join(this.logs, `${SLOTS[slot]!}-${20_260_000 + ++this.#count}.log`)
  }

  /** A name that was never used. */
  fresh(slot: number, suffix: string): string {
    return join(this.logs, `${SLOTS[slot]!}-${++this.#count}${suffix}`)
  }

  newTarget(inside: boolean): string | undefined {
    const path = join(inside ? this.logs : this.targets, `current-${++this.#count}.log`)
    return this.create(path) && path
  }

  /** Lets the symbolic link lead to another file, at once; false: no room. */
  point(target: string): boolean {
    const link = this.path(SLOTS.length - 1)
    try {
      symlinkSync(target, `${link}.tmp`)
      renameSync(`${link}.tmp`, link)
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      return false
    }
  }

  /** Where the symbolic link leads. */
  get target(): string | undefined {
    const link = this.path(SLOTS.length - 1)
    return lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() ? readlinkSync(link) : undefined
  }

  /** What has the name `to` loses it. */
  rename(from: string, to: string): void {
    this.#losesName(to)
    if (this.matches(to)) this.#model.found(this.at(from)?.content)
    renameSync(from, to)
  }

  link(from: string, to: string): void {
    linkSync(from, to)
  }

  unlink(path: string): void {
    this.#losesName(path)
    unlinkSync(path)
  }

  /** An inode without a name is given to another file. */
  #losesName(path: string): void {
    const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    if (stat?.nlink === 1n) this.#inodes.delete(`${stat.dev}:${stat.ino}`)
  }

  /** A copy beside it, which is a file of its own where the patterns find it; false: no room. */
  copy(path: string, to: string): boolean {
    const inode = this.at(path)
    try {
      copyFileSync(path, `${to}.tmp`)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      rmSync(`${to}.tmp`, { force: true })
      return false
    }
    if (inode) {
      const { dev, ino } = statSync(`${to}.tmp`, { bigint: true })
      this.#inodes.set(`${dev}:${ino}`, new Inode(`${dev}:${ino}`, this.#model.copy(inode.content)))
    }
    this.rename(`${to}.tmp`, to)
    return true
  }

  truncate(path: string): void {
    const inode = this.at(path)
    truncateSync(path)
    if (!inode) return
    inode.content = this.#model.truncated(inode.content)
  }

  /** False: no room for it. */
  gzip(path: string): boolean {
    try {
      writeFileSync(`${path}.gz`, gzipSync(readFileSync(path)))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      rmSync(`${path}.gz`, { force: true })
      return false
    }
  }
}
