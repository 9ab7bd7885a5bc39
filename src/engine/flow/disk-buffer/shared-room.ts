import type { DiskAllowance } from '../disk-allowance.js'

/** How often to check whether others have freed space. */
const CHECK_MS = 1000

export interface SharingBuffer {
  readonly path: string
  /** Size of the buffer on disk. */
  bytes(): number
  /** Removes segments if all of their events are delivered. */
  release(): void
  /** Called when there may be space. */
  freed(): void
  sleep(ms: number): Promise<void>
}

/** Disk space that a buffer shares with others; unlimited without an allowance. */
export class SharedRoom {
  readonly #disk: DiskAllowance | undefined
  readonly #buffer: SharingBuffer
  #checking = false

  constructor(disk: DiskAllowance | undefined, buffer: SharingBuffer) {
    this.#disk = disk
    this.#buffer = buffer
    disk?.count(
      buffer.path,
      () => buffer.bytes(),
      () => buffer.release(),
    )
  }

  /** Total bytes that may be used by all. */
  get max(): number {
    return this.#disk?.max ?? Number.POSITIVE_INFINITY
  }

  /** Whether there is space. If not, `freed` is called soon, because others do not report what they free. */
  has(bytes: number): boolean {
    if (!this.#disk || this.#disk.hasRoom(bytes)) return true
    if (!this.#checking) {
      this.#checking = true
      void this.#buffer.sleep(CHECK_MS).then(() => {
        this.#checking = false
        this.#buffer.freed()
      })
    }
    return false
  }

  /** Stops sharing. The remaining size stays counted. */
  close(): void {
    const bytes = this.#buffer.bytes()
    this.#disk?.count(this.#buffer.path, () => bytes)
  }
}
