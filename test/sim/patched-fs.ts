import fs from 'node:fs'
import promises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { promisify } from 'node:util'
import { FileNode, FolderNode, failed, type Node } from './disk.js'
import type { Disk } from './disk-calls.js'
import { VirtualHandle } from './file-handle.js'
import { EPOCH } from './globals.js'

/**
 * Puts the simulated disk under node:fs: paths below ROOT lead to it, and all others to the real one. Import it before everything that
 * is simulated.
 */

/** Behind it a number of eight digits: one for each process, since the program remembers paths. */
const ROOT = '/sluice-sim/'
const NUMBER = ROOT.length + 8
/** The folder above the root of the disk is the root, too: a name in it may be synced. */
const PREFIX = NUMBER + '/m'.length

let disk: Disk | undefined
let mounted = 0

/** Makes this the disk, for a process that begins. Returns the path that its root has for that process. */
export function mount(next: Disk): string {
  disk = next
  mounted++
  next.device = mounted
  return `${ROOT}${String(mounted % 1e8).padStart(8, '0')}/m`
}

const isInside = (path: unknown): path is string => typeof path === 'string' && path.startsWith(ROOT)

/** The path on the disk. One of an earlier process leads nowhere. */
function inside(path: string): string {
  if (!disk!.world.isAlive) throw new Error('the process was killed')
  if (Number(path.slice(ROOT.length, NUMBER)) !== mounted) throw new Error(`a process that was killed uses ${path}`)
  return path.slice(PREFIX) || '/'
}

/** A time of the disk, as a stat has it. */
function timeOf(at: number): { ms: number; ns: bigint } {
  return { ms: EPOCH + at, ns: BigInt(EPOCH) * 1_000_000n + BigInt(Math.floor(at * 1e6)) }
}

interface StatOptions {
  bigint?: boolean
  throwIfNoEntry?: boolean
}

export function statsOf(disk: Disk, node: Node, { bigint = false }: StatOptions = {}): unknown {
  const isFile = node instanceof FileNode
  const number = (n: number) => (bigint ? BigInt(Math.floor(n)) : n)
  const statusAt = isFile ? node.statusAt : node.changedAt
  const born = disk.habits.births === 'stored' ? timeOf(node.birth) : { ms: 0, ns: 0n }
  const [changed, status] = [timeOf(node.changedAt), timeOf(statusAt)]
  return {
    dev: number(disk.device),
    ino: number(node.ino),
    mode: number(isFile ? 0o100600 : 0o40700),
    uid: number(0),
    nlink: number(isFile ? node.names : 2),
    size: number(isFile ? node.size : 4096),
    blocks: number(isFile ? Math.ceil(node.size / 512) : 8),
    mtimeMs: number(changed.ms),
    mtimeNs: changed.ns,
    ctimeMs: number(status.ms),
    ctimeNs: status.ns,
    birthtimeMs: number(born.ms),
    birthtimeNs: born.ns,
    isFile: () => isFile,
    isDirectory: () => !isFile,
    isSymbolicLink: () => false,
    isFIFO: () => false,
    isSocket: () => false,
    isBlockDevice: () => false,
    isCharacterDevice: () => false,
  }
}

function entriesOf(disk: Disk, path: string, options?: { withFileTypes?: boolean }): unknown[] {
  const names = disk.list(path)
  if (!options?.withFileTypes) return names
  const { names: nodes } = disk.tree.folder(path, 'readdir')
  return names.map(name => {
    const isFolder = nodes.get(name) instanceof FolderNode
    return { name, isFile: () => !isFolder, isDirectory: () => isFolder, isSymbolicLink: () => false }
  })
}

type Call = (disk: Disk, path: string, ...rest: never[]) => unknown

/** Calls whose first argument is a path, as all of their forms have them. */
const BY_PATH: Record<string, Call> = {
  stat: (disk, path, options?: StatOptions) => statsOf(disk, disk.stat(path), options),
  lstat: (disk, path, options?: StatOptions) => statsOf(disk, disk.stat(path, 'lstat'), options),
  mkdir: (disk, path) => disk.makeFolder(path),
  readdir: (disk, path, options?: { withFileTypes?: boolean }) => entriesOf(disk, path, options),
  rename: (disk, path, to: string) => disk.rename(path, inside(to)),
  link: (disk, path, to: string) => disk.link(path, inside(to)),
  unlink: (disk, path) => disk.unlink(path),
  rmdir: (disk, path) => disk.removeFolder(path),
  rm: (disk, path, options?: { recursive?: boolean; force?: boolean }) => disk.remove(path, options),
}

type AnyCall = (...args: unknown[]) => unknown
const plain = fs as unknown as Record<string, AnyCall>
const async = promises as unknown as Record<string, AnyCall>

function patch(of: Record<string, AnyCall>, name: string, simulated: AnyCall): void {
  const real = of[name]!
  of[name] = (...args) => (isInside(args[0]) ? simulated(...args) : real(...args))
}

for (const [name, call] of Object.entries(BY_PATH)) {
  const act = (path: unknown, rest: unknown[]) => (call as AnyCall)(disk, inside(path as string), ...rest)
  patch(plain, `${name}Sync`, (path, ...rest) => act(path, rest))
  patch(async, name, (path, ...rest) => {
    const one = disk!
    inside(path as string)
    return one.later(() => act(path, rest))
  })
  patch(plain, name, (path, ...rest) => {
    const done = rest.pop() as AnyCall
    void disk!.later(() => act(path, rest)).then(result => done(null, result), done)
  })
  // What util.promisify makes of it.
  Object.defineProperty(plain[name], promisify.custom, { value: async[name] })
}

const statSync = plain.statSync!
plain.statSync = (path, options) => {
  if (!isInside(path) || (options as StatOptions)?.throwIfNoEntry !== false) return statSync(path, options)
  return disk!.tree.at(inside(path)) ? statSync(path, options) : undefined
}
patch(plain, 'existsSync', path => disk!.tree.at(inside(path as string)) !== undefined)

function readWhole(path: string, options: unknown): unknown {
  const fd = disk!.openFile(path)
  try {
    const node = disk!.nodeOf(fd)
    const bytes = Buffer.alloc(node instanceof FileNode ? node.size : 0)
    disk!.read(fd, bytes, 0, bytes.length, 0)
    const encoding = typeof options === 'string' ? options : (options as { encoding?: string } | undefined)?.encoding
    return encoding ? bytes.toString(encoding as BufferEncoding) : bytes
  } finally {
    disk!.close(fd)
  }
}
patch(plain, 'readFileSync', (path, options) => readWhole(inside(path as string), options))
patch(async, 'readFile', (path, options) => disk!.later(() => readWhole(inside(path as string), options)))
patch(plain, 'mkdtempSync', prefix => {
  const path = `${prefix}${String(disk!.tree.nextIno()).padStart(6, '0')}`
  disk!.makeFolder(inside(path))
  return path
})
patch(async, 'open', async (path, flags) => {
  const one = disk!
  const fd = await one.later(() => one.openFile(inside(path as string), flags as string))
  return new VirtualHandle(one, fd)
})

patch(plain, 'realpathSync', path => {
  disk!.stat(inside(path as string), 'realpath')
  return path
})
patch(plain, 'readlinkSync', path => {
  disk!.stat(inside(path as string), 'readlink')
  throw failed('EINVAL', 'readlink', path as string)
})
patch(plain, 'watch', (path, _options, onEvent) => {
  const stop = disk!.watch(inside(path as string), onEvent as (type: string, name: string) => void)
  return { on: () => {}, close: stop }
})
patch(plain, 'openSync', (path, flags) => disk!.openFile(inside(path as string), flags as string))

/** No mounts of this machine. */
const readFileSync = plain.readFileSync!
plain.readFileSync = (path, options) => {
  if (path === '/proc/self/mountinfo' && disk) return typeof options === 'string' ? '' : Buffer.alloc(0)
  return readFileSync(path, options)
}

/** Calls of node:fs with a descriptor or a callback. */
type Done = (error: unknown, result?: unknown) => void
const FIRST_FD = 1_000_000

const isOurFd = (fd: unknown): fd is number => typeof fd === 'number' && fd >= FIRST_FD
const { fsyncSync, closeSync, fstatSync, writevSync, readSync, readvSync } = plain
plain.fstatSync = (fd, options) =>
  isOurFd(fd) ? statsOf(disk!, disk!.nodeOf(fd), options as StatOptions) : fstatSync!(fd, options)
plain.writevSync = (fd, parts, at) =>
  isOurFd(fd) ? disk!.write(fd, parts as Uint8Array[], (at as number | undefined) ?? null) : writevSync!(fd, parts, at)
plain.readSync = (fd, into, from, length, at) =>
  isOurFd(fd)
    ? disk!.read(fd, into as Uint8Array, from as number, length as number, at as number)
    : readSync!(fd, into, from, length, at)
plain.readvSync = (fd, parts, at) =>
  isOurFd(fd) ? readParts(disk!, fd, parts as Uint8Array[], at as number) : readvSync!(fd, parts, at)
plain.fsyncSync = fd => (isOurFd(fd) ? disk!.sync(fd) : fsyncSync!(fd))
plain.closeSync = fd => (isOurFd(fd) ? disk!.close(fd) : closeSync!(fd))

function readParts(disk: Disk, fd: number, parts: readonly Uint8Array[], at: number): number {
  let read = 0
  for (const part of parts) {
    const length = disk.read(fd, part, 0, part.length, at + read)
    read += length
    if (length < part.length) break
  }
  return read
}

function patchWithDone(name: string, act: (disk: Disk, ...args: never[]) => unknown, named?: string): void {
  const real = plain[name]!
  const isOurs = (first: unknown) => isInside(first) || isOurFd(first)
  const later = (args: unknown[]) => {
    const one = disk!
    return one.later(() => (act as AnyCall)(one, ...args))
  }
  const call = (...args: unknown[]) => {
    if (!isOurs(args[0])) return real(...args)
    const done = args.pop() as Done
    void later(args).then(result => done(null, result), done)
    return undefined
  }
  const inPromise = async (...args: unknown[]) => {
    if (!isOurs(args[0])) return (promisify(real as never) as AnyCall)(...args)
    const result = await later(args)
    return named === undefined ? result : { [named]: result }
  }
  Object.defineProperty(call, promisify.custom, { value: inPromise })
  plain[name] = call
}

patchWithDone('open', (disk, path: string, flags: number) => disk.openFile(inside(path), flags))
patchWithDone('close', (disk, fd: number) => disk.close(fd))
patchWithDone('fstat', (disk, fd: number, options?: StatOptions) => statsOf(disk, disk.nodeOf(fd), options))
patchWithDone('ftruncate', (disk, fd: number, size: number) => disk.truncate(fd, size))
patchWithDone('fdatasync', (disk, fd: number) => disk.sync(fd))
patchWithDone('fsync', (disk, fd: number) => disk.sync(fd))
patchWithDone(
  'read',
  (disk, fd: number, into: Uint8Array, from: number, length: number, at: number) =>
    disk.read(fd, into, from, length, at),
  'bytesRead',
)
patchWithDone('readv', readParts, 'bytesRead')
patchWithDone(
  'writev',
  (disk, fd: number, parts: Uint8Array[], at?: number) => disk.write(fd, parts, at ?? null),
  'bytesWritten',
)
syncBuiltinESMExports()
