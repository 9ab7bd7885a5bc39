import type { BigIntStats } from 'node:fs'
import { basename } from 'node:path'
import { uncompressedName } from '../compression.js'
import { isRotatedName, originalNames } from './names.js'

export interface Listed {
  /** Device and inode. */
  readonly key: string
  readonly name: string
  readonly path: string
  readonly stat: BigIntStats
}

/** Stands for all names of a folder. */
const ALL = ''

/** Owners of a log, now and before; undefined if unknown. */
export type Uids = ReadonlySet<number | undefined>

/** Whether this user may have made a copy of a file of one of these owners. */
export function mayBeMadeBy(uid: number | bigint, owners: Uids | undefined): boolean {
  return Number(uid) === 0 || !owners || owners.has(undefined) || owners.has(Number(uid))
}

/**
 * The owners of the known files of a folder, by name. Where other users may create files, too, only the owner of a log,
 * or root, makes its rotated files. A file that is known by its device and inode needs no owner.
 */
export class Owners {
  readonly #uids = new Map<string, Set<number | undefined>>()

  add(uid: number | undefined, ...paths: readonly string[]): void {
    for (const path of [ALL, ...paths]) {
      const name = basename(path)
      const uids = this.#uids.get(name)
      if (uids) uids.add(uid)
      else this.#uids.set(name, new Set([uid]))
    }
  }

  of(log: string): Uids | undefined {
    return this.#uids.get(log)
  }

  /** Whether this user may have made the rotated files of the log. */
  allow(log: string, uid: number | bigint): boolean {
    return mayBeMadeBy(uid, this.of(log))
  }

  /** Whether the file may be a copy of one of the known files. */
  mayBeCopy({ name, stat }: Listed): boolean {
    const logs = this.#logsOf(name)
    // A new file that takes the name of a log may have a new owner.
    if (logs.every(log => log === name)) return logs.length > 0 || this.allow(ALL, stat.uid)
    return logs.some(log => this.allow(log, stat.uid))
  }

  /** Both owners, if the file has the name of a rotated file. */
  describe({ name, path, stat }: Listed) {
    const log = this.#logsOf(name).find(log => isRotatedName(name, log))
    return log ? [{ file: path, log, uid: Number(stat.uid), log_uid: [...this.#uids.get(log)!][0] }] : []
  }

  /** The known files that had this name, or that may have a copy with this name. */
  #logsOf(name: string): string[] {
    const plain = uncompressedName(name)
    return [name, plain, ...originalNames(plain)].filter(log => this.#uids.has(log))
  }
}
