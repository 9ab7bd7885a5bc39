import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Seeded } from './seeded.js'

/**
 * What a disk may have after a power failure, from what strace saw of a program. A file has all bytes that were synced,
 * and of the others any sectors. A folder has all names that were synced, and the first few of the other changes.
 * Folders are there from when they are made.
 */

const CALLS = 'openat,write,pwrite64,ftruncate,fsync,fdatasync,mkdir,rename,unlink'
/** These change files as well, and are not understood. */
const OTHERS = 'open,creat,writev,pwritev,pwritev2,truncate,fallocate,mkdirat,renameat,renameat2,unlinkat,link,linkat'
const SECTOR = 512

/** Arguments of strace before the command: whole lines of calls that succeeded, in the order of their ends. */
export const traceTo = (file: string): string[] => [
  ...'-f -z -ttt -y -xx -s 10000000 --seccomp-bpf -e signal=none -o'.split(' '),
  file,
  '-e',
  `trace=${CALLS},${OTHERS}`,
]

interface Call {
  /** When it began, in milliseconds since 1970. */
  readonly at: number
  readonly name: string
  readonly args: readonly string[]
  readonly result: number
  /** Of the descriptor, or the name that is an argument. */
  readonly path: string
}

type Change = { readonly at: number } & ({ readonly size: number } | { readonly from: number; readonly bytes: Buffer })

interface File {
  synced: Buffer
  size: number
  changes: Change[]
}

/** A name in a folder gets that file, or none. */
interface Naming {
  readonly at: number
  readonly name: string
  readonly file: File | undefined
}

interface Folder {
  readonly synced: Map<string, File>
  changes: Naming[]
}

/** strace parts a line when a thread ends during its call. */
const PARTED = / <unfinished \.\.\.>\n\)/g
const HEX = /(?:\\x[0-9a-f]{2})+/g
const decoded = (hex: string) => Buffer.from(hex.replaceAll('\\x', ''), 'hex')

function callIn(line: string): Call {
  const match = /^\d+ +([\d.]+) (\w+)\((.*)\) += (\d+)(?:<(.*)>)?/.exec(line)
  if (!match) throw new Error(`strace wrote a line that is no call: ${line.slice(0, 200)}`)
  const [, at, name, text, result, opened] = match
  const args = text!.split(', ')
  const [descriptor] = /<.*>/.exec(args[0]!) ?? []
  const path = (opened ?? descriptor ?? args[0]!).replace(HEX, hex => decoded(hex).toString())
  return { at: Number(at) * 1000, name: name!, args, result: Number(result), path: path.replace(/^[<"]|[">]$/g, '') }
}

export class TracedDisk {
  readonly #root: string
  readonly #wanted: RegExp
  readonly #calls: readonly Call[]
  readonly #folders = new Map<string, Folder>()
  readonly #names = new Map<string, File>()
  #next = 0

  /** The files below `root` whose paths there are `wanted`. The folder itself is on the disk. */
  constructor(trace: string, root: string, wanted: RegExp) {
    this.#root = root
    this.#wanted = wanted
    const lines = readFileSync(trace, 'latin1').replace(PARTED, ')').split('\n')
    const calls = lines.filter(line => line !== '' && !line.endsWith('+++')).map(callIn)
    this.#calls = calls.filter(call => this.#has(call.path))
  }

  #has(path: string): boolean {
    return (
      path === this.#root || (path.startsWith(`${this.#root}/`) && this.#wanted.test(path.slice(this.#root.length + 1)))
    )
  }

  /** The calls that change these files. */
  get size(): number {
    return this.#calls.length
  }

  /**
   * Makes the folder as it may be when the power fails after so many calls, and each change that was not synced is kept
   * with that probability. Returns when the last of the calls began. Calls come in their order.
   */
  cut(calls: number, folder: string, random: Seeded, kept: number): number {
    for (; this.#next < calls; this.#next++) this.#apply(this.#calls[this.#next]!)
    this.#make(this.#root, folder, random, kept)
    return this.#calls[calls - 1]!.at
  }

  #apply({ at, name, args, result, path }: Call): void {
    const file = this.#names.get(path)
    const change = (more: { size: number } | { from: number; bytes: Buffer }) => {
      file!.changes.push({ at, ...more })
      file!.size = 'size' in more ? more.size : Math.max(file!.size, more.from + more.bytes.length)
    }
    const write = (from: number) => change({ from, bytes: decoded(args[1]!.slice(1, -1)).subarray(0, result) })
    if (name === 'openat') {
      if (!file && args[2]!.includes('O_CREAT')) this.#name(at, path, { synced: Buffer.alloc(0), size: 0, changes: [] })
      else if (args[2]!.includes('O_TRUNC')) change({ size: 0 })
    } else if (name === 'mkdir') this.#folder(path)
    else if (name === 'unlink') this.#name(at, path, undefined)
    else if (name === 'rename') {
      this.#name(at, decoded(args[1]!.slice(1, -1)).toString(), file)
      this.#name(at, path, undefined)
    } else if (name === 'write') write(file!.size)
    else if (name === 'pwrite64') write(Number(args[3]))
    else if (name === 'ftruncate') change({ size: Number(args[1]) })
    else if (name !== 'fsync' && name !== 'fdatasync') throw new Error(`what does ${name}(${path}) do?`)
    else if (file) {
      const before = file.changes.filter(one => one.at < at)
      file.changes = file.changes.filter(one => one.at >= at)
      file.synced = contentAfter(file.synced, before, () => true)
    } else {
      const { synced, changes } = this.#folder(path)
      for (const { name, file } of changes) setOrDelete(synced, name, file)
      changes.length = 0
    }
  }

  #folder(path: string): Folder {
    let folder = this.#folders.get(path)
    if (!folder) this.#folders.set(path, (folder = { synced: new Map(), changes: [] }))
    return folder
  }

  #name(at: number, path: string, file: File | undefined): void {
    setOrDelete(this.#names, path, file)
    this.#folder(dirname(path)).changes.push({ at, name: basename(path), file })
  }

  #make(path: string, to: string, random: Seeded, kept: number): void {
    mkdirSync(to, { recursive: true })
    const { synced, changes } = this.#folder(path)
    const names = new Map(synced)
    const first = changes.findIndex(() => !random.chance(kept))
    for (const { name, file } of changes.slice(0, first < 0 ? changes.length : first)) setOrDelete(names, name, file)
    for (const [name, file] of names) {
      const content = contentAfter(file.synced, file.changes, () => random.chance(kept))
      writeFileSync(join(to, name), content, { mode: 0o600 })
    }
    for (const below of this.#folders.keys())
      if (below !== path && dirname(below) === path) this.#make(below, join(to, basename(below)), random, kept)
  }
}

function setOrDelete<T>(map: Map<string, T>, name: string, value: T | undefined): void {
  if (value === undefined) map.delete(name)
  else map.set(name, value)
}

/** The content after changes. `has` says for each sector, and for each new size, whether the disk has it. */
function contentAfter(synced: Buffer, changes: readonly Change[], has: () => boolean): Buffer {
  const ends = changes.map(change => ('size' in change ? change.size : change.from + change.bytes.length))
  const content = Buffer.alloc(Math.max(synced.length, ...ends))
  let size = synced.copy(content)
  for (const change of changes) {
    if ('size' in change) {
      if (has()) content.fill(0, (size = change.size))
      continue
    }
    const { from, bytes } = change
    for (let at = 0, end = 0; at < bytes.length; at = end) {
      end = Math.min(bytes.length, at + SECTOR - ((from + at) % SECTOR))
      if (!has()) continue
      bytes.copy(content, from + at, at, end)
      size = Math.max(size, from + end)
    }
  }
  return content.subarray(0, size)
}
