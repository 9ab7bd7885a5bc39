import { errorCode, lacksDescriptor } from '../../core/errors.js'
import { unlessSilent } from '../../lib/files/disk/disk.js'
import { type Descriptors, TooManyOpen } from './descriptors.js'
import { type BirthTimes, openKnown } from './identity.js'
import type { PathProblems } from './path-problems.js'
import type { Tailer } from './reading/tailer.js'

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
        const fd = openKnown(tailer.path, tailer.key, tailer.birth, this.#births)
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
