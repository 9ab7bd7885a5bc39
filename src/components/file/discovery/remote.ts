import type { Logger } from 'pino'
import { prepareCalls } from '../../../lib/files/disk/disk.js'
import { type FileSystems, SilentFileSystem } from '../../../lib/files/disk/file-systems.js'
import type { Clock } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'

/**
 * The remote file systems of a source. While a file system does not respond, the source does not access any file on it.
 * Most calls of a source are synchronous, so a call that does not return would block the whole process.
 */
export class Remote {
  readonly #fileSystems: FileSystems
  readonly #log: Logger
  readonly #clock: Clock
  /** Mounts that do not respond, and since when. */
  readonly #silent = new Map<string, number>()
  #met = new Set<string>()

  constructor(fileSystems: FileSystems, log: Logger, clock: Clock) {
    this.#fileSystems = fileSystems
    this.#log = log
    this.#clock = clock
  }

  get silent(): number {
    return this.#silent.size
  }

  has(path: string): boolean {
    return this.#fileSystems.mountOf(path) !== undefined
  }

  /** Checks whether the file system of `path` responds. If it responds, files on it may be accessed. */
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

  /** Calls `look` and returns its result; undefined if a file system stopped responding. */
  async unlessSilent<T>(look: () => Promise<T> | T): Promise<T | undefined> {
    try {
      return await look()
    } catch (error) {
      if (!(error instanceof SilentFileSystem)) throw error
      await this.answers(error.mount)
      return undefined
    }
  }

  /** Whether the file system of `path` did not respond at the last check. */
  isSilent(path: string): boolean {
    return this.#fileSystems.silentAt(path) !== undefined
  }

  /** Runs `call`, which accesses `path`, in another thread. Rejects if the file system stops responding. */
  runInTime<T>(path: string, call: () => Promise<T>): Promise<T> {
    return this.#fileSystems.runInTime(path, call)
  }

  /** Forgets file systems that are no longer used. Call this after all paths were checked. */
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
