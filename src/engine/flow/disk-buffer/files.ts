import { constants } from 'node:fs'
import { type FileHandle, open, readdir, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import { NewerFormat } from '../../../core/unreadable.js'
import { syncFolder } from '../../../lib/files/atomic-file.js'
import { makeFolder } from '../../../lib/files/make-folder.js'

/** Disk operations of a buffer. If an operation fails, it rejects with a system error. Tests replace the operations. */
export interface BufferFolder {
  readonly path: string
  /** Creates the folder if it is missing, and syncs its name. */
  make(): Promise<void>
  /** Names of the folder's files; empty if the folder does not exist. */
  list(): Promise<string[]>
  /** Creates a file for reading and writing. Rejects if the name exists. */
  create(name: string): Promise<BufferFile>
  open(name: string): Promise<BufferFile>
  rename(from: string, to: string): Promise<void>
  remove(name: string): Promise<void>
  /** Syncs the names of the folder's files. */
  sync(): Promise<void>
}

export interface BufferFile {
  /** Writes all parts in order from offset `at` on. */
  write(parts: readonly Buffer[], at: number): Promise<void>
  /** Reads from offset `at` until `into` is full or the file ends. Returns the number of bytes. */
  read(into: Buffer, at: number): Promise<number>
  /** Syncs content and size. Rejects if the file was removed. */
  sync(): Promise<void>
  truncate(size: number): Promise<void>
  size(): Promise<number>
  close(): Promise<void>
}

/** After this many attempts, a file counts as unreadable. */
const ATTEMPTS = 3

/** Whether it is useless to read a file again after `failures` failed attempts. */
export function isFinal(error: unknown, failures: number): boolean {
  return failures >= ATTEMPTS || error instanceof NewerFormat || errorCode(error) === 'ENOENT'
}

/** Reads a file. Tries again after an error that is not final. */
export async function retried<T>(read: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await read()
    } catch (error) {
      if (isFinal(error, failures)) throw error
    }
  }
}

const { O_RDWR, O_CREAT, O_EXCL } = constants

const REMOVED = { code: 'ENOENT' }

/** A folder on disk, two levels below an existing folder. */
export function folderOnDisk(path: string): BufferFolder {
  const inside = (name: string) => `${path}/${name}`
  return {
    path,
    async make() {
      await makeFolder(path, 0o700)
      for (const above of [dirname(path), dirname(dirname(path))]) await syncFolder(above)
    },
    async list() {
      try {
        return await readdir(path)
      } catch (error) {
        if (errorCode(error) === 'ENOENT') return []
        throw error
      }
    },
    create: async name => new DiskFile(await open(inside(name), O_RDWR | O_CREAT | O_EXCL, 0o600)),
    open: async name => new DiskFile(await open(inside(name), O_RDWR)),
    rename: (from, to) => rename(inside(from), inside(to)),
    remove: name => unlink(inside(name)),
    sync: () => syncFolder(path),
  }
}

class DiskFile implements BufferFile {
  readonly #file: FileHandle

  constructor(file: FileHandle) {
    this.#file = file
  }

  async write(parts: readonly Buffer[], at: number): Promise<void> {
    let left = [...parts]
    for (;;) {
      let { bytesWritten } = await this.#file.writev(left, at)
      at += bytesWritten
      while (left.length > 0 && bytesWritten >= left[0]!.length) bytesWritten -= left.shift()!.length
      if (left.length === 0) return
      left = [left[0]!.subarray(bytesWritten), ...left.slice(1)]
    }
  }

  async read(into: Buffer, at: number): Promise<number> {
    let filled = 0
    while (filled < into.length) {
      const { bytesRead } = await this.#file.read(into, filled, into.length - filled, at + filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return filled
  }

  async sync(): Promise<void> {
    await this.#file.datasync()
    const { nlink } = await this.#file.stat()
    // The file has no name anymore, so nobody could open it again.
    if (nlink === 0) throw Object.assign(new Error('ENOENT: the file was removed while it was being written'), REMOVED)
  }

  truncate(size: number): Promise<void> {
    return this.#file.truncate(size)
  }

  async size(): Promise<number> {
    return (await this.#file.stat()).size
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}
