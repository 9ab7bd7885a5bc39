import { constants } from 'node:fs'
import { errorCode, lacksDescriptor } from '../../core/errors.js'
import type { Reach } from '../../core/options/reach.js'
import { closeSync, fstatSync, openToRead, unlessSilent } from '../../lib/files/disk/disk.js'
import { type Descriptors, TooManyOpen } from './descriptors.js'
import { type BirthTimes, keyOf } from './identity.js'
import type { PathProblems } from './path-problems.js'
import type { Tailer } from './reading/tailer.js'

/** Opens a file for reading within the limits of its source, if any. Does not wait for the writer of a FIFO. */
export function openWithinSync(reach: Reach | undefined, path: string): number {
  return reach ? openToRead(reach.realFile(path), constants.O_NOFOLLOW) : openToRead(path)
}

/** Opens the file at `path`; undefined if it does not have this key and birth time. */
export function openKnown(
  path: string,
  { key, birth }: { readonly key: string; readonly birth: bigint },
  births: BirthTimes,
  reach?: Reach,
): number | undefined {
  const fd = openWithinSync(reach, path)
  let isKnown = false
  try {
    const stat = fstatSync(fd, { bigint: true })
    isKnown = keyOf(stat) === key && stat.isFile() && !births.differ(stat, birth, path)
    return isKnown ? fd : undefined
  } finally {
    if (!isKnown) closeSync(fd)
  }
}

/** Opens files that were closed to save descriptors. */
export class Opening {
  readonly #descriptors: Descriptors
  readonly #problems: PathProblems
  readonly #births: BirthTimes

  constructor(descriptors: Descriptors, problems: PathProblems, births: BirthTimes) {
    this.#descriptors = descriptors
    this.#problems = problems
    this.#births = births
  }

  /** Opens the file if it is closed; false if it cannot be read now. */
  open(tailer: Tailer): boolean {
    if (tailer.copy) {
      if (tailer.copy.isLost) tailer.failed = 'moved'
      return tailer.isOpen
    }
    try {
      if (!tailer.isOpen) {
        this.#descriptors.makeRoom()
        const fd = openKnown(tailer.path, tailer, this.#births)
        if (fd === undefined) {
          tailer.failed = 'moved'
          return false
        }
        tailer.open(fd)
      }
    } catch (error) {
      this.failed(tailer.path, error)
      tailer.failed = errorCode(error) === 'ENOENT' ? 'moved' : error instanceof TooManyOpen ? 'waits' : 'open'
      return false
    }
    this.#descriptors.used(tailer)
    if (tailer.failed === 'open' || tailer.failed === 'waits') {
      tailer.failed = undefined
      this.#problems.over(tailer.path)
    }
    return true
  }

  /** Records why a file cannot be opened. Throws if its file system does not respond. */
  failed(path: string, error: unknown): void {
    unlessSilent(error)
    if (lacksDescriptor(error)) this.#descriptors.refused()
    if (errorCode(error) !== 'ENOENT') this.#problems.failed(path, 'open', error)
  }
}
