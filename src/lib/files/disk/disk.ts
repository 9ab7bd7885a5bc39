import fs, { type BigIntStats, type Dirent, type Stats } from 'node:fs'
import { systemClock } from '../../time.js'
import { type FileSystems, fileSystems, SilentFileSystem } from './file-systems.js'
import type { DiskAnswer, EntryKind } from './messages.js'
import { FsThread } from './thread.js'

/**
 * Synchronous calls of node:fs that do not block the process when a file server is unreachable. Calls about local files
 * go directly to node:fs. A call about a file on a remote mount runs in another thread, with a time limit. After a
 * timeout, the call throws SilentFileSystem, which says nothing about the file. The mount then counts as silent, and
 * later calls about it throw the same error without waiting.
 */

/** Time limit of a remote call. Doubles, up to the maximum, if a call takes longer. */
const PATIENCE_MS = 1000
const MOST_PATIENCE_MS = 5000
/** For each mount: maximum number of threads whose call does not return. */
const MOST_STUCK = 8

type Name =
  | 'accessSync'
  | 'readFileSync'
  | 'statSync'
  | 'fstatSync'
  | 'lstatSync'
  | 'readdirSync'
  | 'openSync'
  | 'readSync'
  | 'realpathSync'
  | 'readlinkSync'
  | 'existsSync'

type Thread = Pick<FsThread, 'ready' | 'ended' | 'hasFailed' | 'call'>

/** A call that has not returned yet. */
interface Stuck {
  readonly mount: string
  /** The function and the path. */
  readonly what: string
  readonly ended: Promise<void>
}

class Guard {
  readonly systems: FileSystems
  /**
   * Whether a stat shows birth times. Without the system call statx (old containers), it shows the times of the last
   * changes instead. /proc stores no birth times, so another time than 0 there is the time of a change.
   */
  readonly hasBirthTimes = fs.statSync('/proc/self', { bigint: true, throwIfNoEntry: false })?.birthtimeNs === 0n
  readonly #newThread: () => Thread
  #thread: Thread | undefined
  readonly #stuck = new Set<Stuck>()
  /** The remote mounts of open descriptors. */
  readonly #mounts = new Map<number, string>()
  /** The time limit in milliseconds for each function and path whose last call timed out. */
  readonly #patience = new Map<string, number>()

  constructor(systems: FileSystems, newThread: () => Thread = () => new FsThread()) {
    this.systems = systems
    this.#newThread = newThread
  }

  mountOf(file: string | number): string | undefined {
    if (typeof file === 'string') return this.systems.mountOf(file)
    return this.#mounts.size === 0 ? undefined : this.#mounts.get(file)
  }

  opened(fd: number, mount: string): number {
    this.#mounts.set(fd, mount)
    return fd
  }

  /** Starts the thread in advance, so the first call does not wait for the start. */
  async prepare(): Promise<void> {
    await this.#begin()?.ready
  }

  call(mount: string, name: Name, args: readonly unknown[]): DiskAnswer {
    if (this.systems.isSilent(mount)) throw new SilentFileSystem(mount)
    const what = `${name} ${args[0]}`
    const stuck = [...this.#stuck].filter(one => one.mount === mount)
    // The same call would take another thread and not return either. A descriptor may be of another file by now.
    const same = typeof args[0] === 'string' && stuck.find(one => one.what === what)
    if (same) throw this.#silence(mount, same.ended)
    if (stuck.length >= MOST_STUCK) throw this.#silence(mount, Promise.race(stuck.map(({ ended }) => ended)))
    const thread = this.#begin()
    if (!thread) throw this.#silence(mount, Promise.resolve())
    const patience = this.#patience.get(what) ?? PATIENCE_MS
    const began = systemClock.now()
    const answer = thread.call({ name, args }, patience)
    if (answer) {
      if (this.#patience.size > 0 && systemClock.now() - began < PATIENCE_MS) this.#patience.delete(what)
      return answer
    }
    this.#patience.set(what, Math.min(2 * patience, MOST_PATIENCE_MS))
    this.#thread = undefined
    const { ended } = thread
    const late = { mount, what, ended }
    this.#stuck.add(late)
    void ended.then(() => this.#stuck.delete(late))
    throw this.#silence(mount, ended)
  }

  #silence(mount: string, until: Promise<void>): SilentFileSystem {
    this.systems.silence(mount, until)
    return new SilentFileSystem(mount)
  }

  /** Undefined if no thread can be started. */
  #begin(): Thread | undefined {
    if (this.#thread?.hasFailed) this.#thread = undefined
    try {
      return (this.#thread ??= this.#newThread())
    } catch {
      return undefined
    }
  }

  /** Runs in the background, since closing may take as long as any other call. */
  async close(fd: number, mount: string): Promise<void> {
    this.#mounts.delete(fd)
    await this.systems.runWhenAnswered(mount, () => new Promise<void>(done => fs.close(fd, () => done())))
  }
}

/**
 * Rethrows a SilentFileSystem. Ignores other errors: they are facts about the file. With `folder`, rethrows only if the
 * folder itself is on the silent file system. A mount point or link inside the folder does not count.
 */
export function unlessSilent(error: unknown, folder?: string): void {
  if (!(error instanceof SilentFileSystem)) return
  if (folder === undefined || guard.mountOf(folder) === error.mount) throw error
}

/** Returns the result of `call`; undefined if it fails. May rethrow a SilentFileSystem (see `unlessSilent`). */
export function orNone<T>(call: () => T, folder?: string): T | undefined {
  try {
    return call()
  } catch (error) {
    unlessSilent(error, folder)
    return undefined
  }
}

/** Like `orNone`. Also returns undefined if a file system does not respond. */
export function orUnknown<T>(call: () => T): T | undefined {
  try {
    return call()
  } catch {
    return undefined
  }
}

/** Returns the stats of a path; undefined if it does not exist or is not accessible. */
export function statOrNone(path: string, folder?: string): BigIntStats | undefined {
  return orNone(() => statSync(path, { bigint: true, throwIfNoEntry: false }), folder)
}

/**
 * Opens the file and returns the result of `use`; undefined if opening or `use` fails. With `keeps`, the owner of the
 * result must close the file.
 */
export function withFile<T>(
  path: string,
  use: (fd: number) => T,
  { keeps = false, open = openToRead } = {},
): T | undefined {
  return orNone(() => {
    const fd = open(path)
    let result: T | undefined
    try {
      result = use(fd)
      return result
    } finally {
      if (!(keeps && result)) closeSync(fd)
    }
  })
}

/** Opens a file for reading. Does not wait for the writer of a FIFO. */
export function openToRead(path: string, flags = 0): number {
  return openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK | flags)
}

let guard = new Guard(fileSystems)

/** For tests: replaces file systems and threads. Call the result to restore them. */
export function guardBy(systems: FileSystems, newThread?: () => Thread): () => void {
  const before = guard
  guard = new Guard(systems, newThread)
  return () => (guard = before)
}

/** Await this before synchronous calls about remote files. */
export async function prepareCalls(): Promise<void> {
  await guard.prepare()
}

const calls = fs as unknown as Record<Name, (file: string | number, ...rest: unknown[]) => unknown>

/** Returns a guarded function of node:fs. The function's first argument is a path or a descriptor. */
function guarded<T>(name: Name): T {
  const call = (file: string | number, ...rest: unknown[]) => {
    const mount = guard.mountOf(file)
    const result = mount === undefined ? calls[name](file, ...rest) : resultOf(guard.call(mount, name, [file, ...rest]))
    if (!guard.hasBirthTimes && (result as Partial<BigIntStats>)?.birthtimeNs)
      Object.assign(result!, { birthtimeNs: 0n })
    return result
  }
  return call as T
}

export const statSync = guarded<typeof fs.statSync>('statSync')
export const lstatSync = guarded<typeof fs.lstatSync>('lstatSync')
export const fstatSync = guarded<typeof fs.fstatSync>('fstatSync')
export const accessSync = guarded<(path: string, mode: number) => void>('accessSync')
export const existsSync = guarded<typeof fs.existsSync>('existsSync')
export const realpathSync = guarded<(path: string) => string>('realpathSync')
export const readlinkSync = guarded<(path: string) => string>('readlinkSync')
export const readdirSync = guarded<{
  (path: string): string[]
  (path: string, options: { withFileTypes: true }): FolderEntry[]
}>('readdirSync')

export function openSync(path: string, flags: number): number {
  const mount = guard.mountOf(path)
  if (mount === undefined) return fs.openSync(path, flags)
  return guard.opened(resultOf(guard.call(mount, 'openSync', [path, flags])) as number, mount)
}

export function readSync(fd: number, bytes: Uint8Array, offset: number, length: number, at: number): number {
  const mount = guard.mountOf(fd)
  if (mount === undefined) return fs.readSync(fd, bytes, offset, length, at)
  const read = resultOf(guard.call(mount, 'readSync', [fd, length, at])) as Uint8Array
  bytes.set(read, offset)
  return read.length
}

export function readFileSync(path: string): Buffer {
  const mount = guard.mountOf(path)
  if (mount === undefined) return fs.readFileSync(path)
  const { buffer, byteOffset, byteLength } = resultOf(guard.call(mount, 'readFileSync', [path])) as Uint8Array
  return Buffer.from(buffer, byteOffset, byteLength)
}

/** Closes a descriptor, which must not be used afterwards. A remote file is closed when its file system responds. */
export function closeSync(fd: number): void {
  const mount = guard.mountOf(fd)
  if (mount === undefined) fs.closeSync(fd)
  else void guard.close(fd, mount)
}

/** Reads from offset `at` into `bytes` in another thread. Resolves with the number of bytes read. */
export async function readLater(fd: number, bytes: Buffer, at: number): Promise<number> {
  const mount = guard.mountOf(fd)
  if (mount === undefined) return await readApart(fd, bytes, at)
  // Reads into a separate buffer, because a read that timed out may still write to its buffer much later.
  const own = Buffer.allocUnsafeSlow(bytes.length)
  const length = await guard.systems.runInTime(mount, () => readApart(fd, own, at))
  return own.copy(bytes, 0, 0, length)
}

function readApart(fd: number, bytes: Buffer, at: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, bytes, 0, bytes.length, at, (error, length) => (error ? reject(error) : resolve(length)))
  })
}

/** Closes a file in another thread. */
export function closeLater(fd: number): void {
  const mount = guard.mountOf(fd)
  if (mount === undefined) fs.close(fd, () => {})
  else void guard.close(fd, mount)
}

export type FolderEntry = Pick<Dirent, 'name' | 'isDirectory' | 'isSymbolicLink'>

function entryOf({ name, kind }: { readonly name: string; readonly kind: EntryKind }): FolderEntry {
  return {
    name,
    isDirectory: () => kind === 'folder',
    isSymbolicLink: () => kind === 'link',
  }
}

function resultOf(answer: DiskAnswer): unknown {
  if ('error' in answer) {
    const { message, ...rest } = answer.error
    throw Object.assign(new Error(message), rest)
  }
  if ('entries' in answer) return answer.entries.map(entryOf)
  if ('stats' in answer) return answer.stats && statsOf(answer.stats)
  return answer.result
}

/** Adds the methods of Stats, because a message between threads does not keep them. */
function statsOf(numbers: object): Stats | BigIntStats {
  const bigint = 'dev' in numbers && typeof numbers.dev === 'bigint'
  const { prototype } = fs.statSync('/', { bigint }).constructor
  return Object.setPrototypeOf(numbers, prototype)
}
