import { errorCode } from '../../core/errors.js'
import { unlessSilent } from '../../lib/guarded-fs.js'
import type { Descriptors } from './descriptors.js'
import { type BirthTimes, openKnown } from './identity.js'
import type { Tailer } from './tailer.js'
import type { Troubles } from './troubles.js'

/** Opens files that were closed to save descriptors. */
export class Opening {
  readonly #descriptors: Descriptors
  readonly #troubles: Troubles
  readonly #births: BirthTimes

  constructor(descriptors: Descriptors, troubles: Troubles, births: BirthTimes) {
    this.#descriptors = descriptors
    this.#troubles = troubles
    this.#births = births
  }

  /** Opens the file if it is not; false when it cannot be read now. */
  open(tailer: Tailer): boolean {
    if (tailer.copy) return true
    try {
      if (!tailer.isOpen) {
        this.#descriptors.trim(1)
        const fd = openKnown(tailer.path, tailer.key, tailer.birth, this.#births)
        if (fd === undefined) return false
        tailer.open(fd)
      }
    } catch (error) {
      this.failed(tailer.path, error)
      tailer.failed = 'open'
      return false
    }
    this.#descriptors.used(tailer)
    if (tailer.failed === 'open') {
      tailer.failed = undefined
      this.#troubles.over(tailer.path)
    }
    return true
  }

  /** Notes why a file cannot be opened. Throws when it is its file system that does not answer. */
  failed(path: string, error: unknown): void {
    unlessSilent(error)
    const code = errorCode(error)
    if (code === 'EMFILE' || code === 'ENFILE') this.#descriptors.refused()
    if (code !== 'ENOENT') this.#troubles.failed(path, 'open', error)
  }
}
