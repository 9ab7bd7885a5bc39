import type { BufferFile, BufferFolder } from '../../src/engine/flow/disk-buffer/files.js'

/** What a process asks of the disk. */
export interface Operation {
  /** From 0, in the order of asking. */
  readonly index: number
  readonly kind: 'make' | 'list' | 'create' | 'open' | 'rename' | 'remove' | 'folder_sync' | FileOperation
  readonly name: string
  /** Of a write or read. */
  readonly size: number
}
type FileOperation = 'write' | 'read' | 'sync' | 'truncate' | 'size' | 'close'

/**
 * What becomes of an operation: an error, after `done` bytes of a write; or the process ends in the middle of it. After a
 * failed sync the pages that were not written are still in memory, or with `loses` dropped: they read as on the disk.
 */
export type Fault =
  | { readonly error: string; readonly done?: number; readonly loses?: boolean }
  | { readonly stop: true; readonly done?: number }

/** A write that is not safe yet, or a change of the size. */
type Change = { readonly at: number; readonly bytes: Buffer } | { readonly size: number }

type Ask = <T>(
  kind: Operation['kind'],
  name: string,
  size: number,
  work: () => T,
  partly?: (done: number, fault: Fault) => unknown,
) => Promise<T>

class Inode {
  /** What a process reads: safe or not. */
  content: Buffer = Buffer.alloc(0)
  /** What is left after the power failed. */
  safe: Buffer = Buffer.alloc(0)
  /** What a sync makes safe. */
  changes: Change[] = []
  /** How often it is open. */
  opened = 0
}

function apply(content: Buffer, change: Change): Buffer {
  if ('size' in change) {
    return Buffer.concat([content.subarray(0, change.size)], change.size)
  }
  const end = change.at + change.bytes.length
  const grown = Buffer.concat([content], Math.max(content.length, end))
  change.bytes.copy(grown, change.at)
  return grown
}

function systemError(code: string, name: string): Error {
  return Object.assign(new Error(`${code}: simulated, ${name}`), { code })
}

function throwFull(name: string): void {
  throw systemError('ENOSPC', name)
}

/**
 * A folder on a disk that keeps nothing but what was synced when the power fails, that forgets what it had when a sync
 * fails, and that fails or stops where a test wants it. One process at a time uses it.
 */
export class SimulatedDisk {
  #names = new Map<string, Inode>()
  /** Names that are safe, and the changes since, in order. */
  #safeNames = new Map<string, Inode>()
  #nameChanges: ((names: Map<string, Inode>) => void)[] = []
  #made = false
  #operations = 0
  /** Decides what becomes of an operation; undefined: it works. */
  fault: (operation: Operation) => Fault | undefined = () => undefined
  /** Bytes of all files, also of those without a name that are open still. */
  capacity = Number.POSITIVE_INFINITY
  readonly #inodes = new Set<Inode>()
  /** Whether the process has ended: then nothing it asks for is ever answered. */
  stopped = false
  readonly log: Operation[] = []
  /** How soon an answer comes: in the next turn of the loop, or after so many microtasks. */
  delay: () => 'turn' | number = () => 'turn'
  /** Which process it is that may ask. */
  #process = 0

  get operations(): number {
    return this.#operations
  }

  names(): string[] {
    return [...this.#names.keys()].sort()
  }

  content(name: string): Buffer {
    return this.#names.get(name)!.content
  }

  /** Sets what a file holds, as if it was always so. */
  put(name: string, content: Buffer): void {
    const inode = new Inode()
    inode.content = inode.safe = content
    this.#names.set(name, inode)
    this.#safeNames.set(name, inode)
  }

  /** The process was killed; what it wrote stays. */
  killed(): void {
    this.#restart()
  }

  /** The power failed: of what was not synced, any part may be there. `random` is in [0, 1). */
  powerFailed(random: () => number): void {
    const kept = Math.floor(random() * (this.#nameChanges.length + 1))
    for (const change of this.#nameChanges.slice(0, kept)) change(this.#safeNames)
    this.#names = new Map(this.#safeNames)
    for (const inode of this.#names.values()) {
      let content = inode.safe
      for (const change of inode.changes) {
        const fate = random()
        if (fate < 0.4) content = apply(content, change)
        else if (fate < 0.8 && 'bytes' in change) {
          // A part of it: sectors in any order, the size perhaps before the bytes.
          const from = Math.floor(random() * change.bytes.length)
          const to = from + Math.floor(random() * (change.bytes.length - from))
          const start = random() < 0.5 ? 0 : from
          content = apply(content, { at: change.at + start, bytes: change.bytes.subarray(start, to) })
          if (random() < 0.3)
            content = apply(content, { size: Math.max(content.length, change.at + change.bytes.length) })
        }
      }
      inode.content = inode.safe = content
    }
    this.#restart()
  }

  #restart(): void {
    this.#nameChanges = []
    this.#safeNames = new Map(this.#names)
    for (const inode of this.#names.values()) {
      inode.safe = inode.content
      inode.changes = []
    }
    this.#process++
    this.stopped = false
    this.fault = () => undefined
  }

  /** The folder as the process that runs now sees it. */
  folder(): BufferFolder {
    const process = this.#process
    const ask: Ask = async (...what) => {
      const delay = this.delay()
      if (delay === 'turn') await new Promise(resolve => setImmediate(resolve))
      else for (let i = 0; i < delay; i++) await undefined
      return await (process === this.#process && !this.stopped ? this.#ask(...what) : new Promise<never>(() => {}))
    }
    const rename = (change: (names: Map<string, Inode>) => void) => {
      change(this.#names)
      this.#nameChanges.push(change)
    }
    const inodeOf = (name: string) => {
      const inode = this.#names.get(name)
      if (!inode) throw systemError('ENOENT', name)
      return inode
    }
    return {
      path: '/simulated',
      make: () =>
        ask('make', '', 0, () => {
          this.#made = true
        }),
      list: () => ask('list', '', 0, () => this.names()),
      create: name =>
        ask('create', name, 0, () => {
          if (!this.#made && this.#names.size === 0) throw systemError('ENOENT', name)
          if (this.#names.has(name)) throw systemError('EEXIST', name)
          const inode = new Inode()
          rename(names => names.set(name, inode))
          return this.#file(name, inode, ask)
        }),
      open: name => ask('open', name, 0, () => this.#file(name, inodeOf(name), ask)),
      rename: (from, to) =>
        ask('rename', from, 0, () => {
          const inode = inodeOf(from)
          rename(names => {
            names.delete(from)
            names.set(to, inode)
          })
        }),
      remove: name =>
        ask('remove', name, 0, () => {
          inodeOf(name)
          rename(names => names.delete(name))
        }),
      sync: () =>
        ask('folder_sync', '', 0, () => {
          this.#safeNames = new Map(this.#names)
          this.#nameChanges = []
        }),
    }
  }

  /** Bytes that are not free. */
  #taken(): number {
    let bytes = 0
    const named = new Set(this.#names.values())
    for (const inode of this.#inodes) {
      if (inode.opened > 0 || named.has(inode)) bytes += inode.content.length
      else this.#inodes.delete(inode)
    }
    return bytes
  }

  #file(name: string, inode: Inode, ask: Ask): BufferFile {
    inode.opened++
    this.#inodes.add(inode)
    const change = (what: Change) => {
      inode.content = apply(inode.content, what)
      inode.changes.push(what)
    }
    return {
      write: (parts, at) => {
        const bytes = Buffer.concat(parts)
        const full = this.#taken() + at + bytes.length - inode.content.length > this.capacity
        if (full) return ask<void>('write', name, 0, () => throwFull(name))
        const write = (done: number) => done > 0 && change({ at, bytes: bytes.subarray(0, done) })
        return ask('write', name, bytes.length, () => void write(bytes.length), write)
      },
      read: (into, at) => ask('read', name, into.length, () => inode.content.copy(into, 0, at)),
      sync: () => {
        const sync = () => {
          for (const one of inode.changes) inode.safe = apply(inode.safe, one)
          inode.changes = []
        }
        // After a failure the system takes what it could not write for written.
        const failed = (_: number, fault: Fault) => {
          if ('loses' in fault) inode.content = Buffer.concat([inode.safe], inode.content.length)
          inode.changes = []
        }
        return ask('sync', name, 0, sync, failed)
      },
      truncate: size => ask('truncate', name, 0, () => change({ size })),
      size: () => ask('size', name, 0, () => inode.content.length),
      close: () =>
        ask('close', name, 0, () => {
          inode.opened--
        }),
    }
  }

  /** `partly` is what happens of it when it fails after some bytes. */
  async #ask<T>(
    kind: Operation['kind'],
    name: string,
    size: number,
    work: () => T,
    partly: (done: number, fault: Fault) => unknown = () => {},
  ): Promise<T> {
    const operation = { index: this.#operations++, kind, name, size }
    this.log.push(operation)
    const fault = this.fault(operation)
    if (!fault) return work()
    partly(Math.min(fault.done ?? 0, size), fault)
    if ('error' in fault) throw systemError(fault.error, name)
    this.stopped = true
    return await new Promise(() => {})
  }
}
