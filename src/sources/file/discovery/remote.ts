import type { Logger } from 'pino'
import { type FileSystems, SilentFileSystem } from '../../../lib/files/remote/file-systems.js'
import { prepareCalls } from '../../../lib/files/remote/guarded-fs.js'
import type { Clock } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'

/**
 * The remote file systems that a source reads from. While one of them does not answer, nothing of it is touched: the calls of a source
 * are mostly synchronous, and one that does not return would stop the whole process.
 */
export class Remote {
  readonly #fileSystems: FileSystems
  readonly #log: Logger
  readonly #clock: Clock
  /** Mounts that do not answer, and since when. */
  readonly #silent = new Map<string, number>()
  #met = new Set<string>()

  constructor(fileSystems: FileSystems, log: Logger, clock: Clock) {
    this.#fileSystems = fileSystems
    this.#log = log
    this.#clock = clock
  }

  /** File systems that do not answer now. */
  get silent(): number {
    return this.#silent.size
  }

  has(path: string): boolean {
    return this.#fileSystems.mountOf(path) !== undefined
  }

  /** Whether `path` may be touched now. Asks its file system. */
  async answers(path: string): Promise<boolean> {
    const mount = this.#fileSystems.mountOf(path)
    if (mount === undefined) return true
    this.#met.add(mount)
    const answers = await this.#fileSystems.answers(mount)
    if (answers) {
      this.#over(mount)
      await prepareCalls()
    } else if (!this.#silent.has(mount)) {
      this.#silent.set(mount, this.#clock.now())
      this.#log.error(
        { code: 'SLUICE_FILE_SYSTEM_SILENT', folder: mount },
        'file system does not answer; its files are read when it answers again',
      )
    }
    return answers
  }

  /** What `look` finds; undefined: a file system does not answer any more. */
  async unlessSilent<T>(look: () => Promise<T> | T): Promise<T | undefined> {
    try {
      return await look()
    } catch (error) {
      if (!(error instanceof SilentFileSystem)) throw error
      await this.answers(error.mount)
      return undefined
    }
  }

  /** Whether `path` is in a file system that did not answer when it was asked last. */
  isSilent(path: string): boolean {
    return this.#fileSystems.silentAt(path) !== undefined
  }

  /** A call about `path` that another thread makes. Rejects when the file system stops to answer meanwhile. */
  runInTime<T>(path: string, call: () => Promise<T>): Promise<T> {
    return this.#fileSystems.runInTime(path, call)
  }

  /** All that is read was asked for once: file systems that were not among it are gone. */
  forgetOthers(): void {
    for (const mount of this.#silent.keys()) if (!this.#met.has(mount)) this.#silent.delete(mount)
    this.#met = new Set()
  }

  #over(mount: string): void {
    const since = this.#silent.get(mount)
    if (since === undefined) return
    this.#silent.delete(mount)
    this.#log.info({ folder: mount, after: formatDuration(this.#clock.now() - since) }, 'file system answers again')
  }
}
