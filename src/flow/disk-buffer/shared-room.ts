import type { DiskAllowance } from '../disk-allowance.js'

/** How often it is checked whether others have left room. */
const CHECK_MS = 1000

export interface SharingBuffer {
  readonly path: string
  /** What the buffer takes on the disk. */
  bytes(): number
  /** Removes what is delivered, if that is everything. */
  release(): void
  /** There may be room now. */
  freed(): void
  sleep(ms: number): Promise<void>
}

/** The room on the disk that a buffer shares with others; without an allowance there is no bound. */
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

  /** Bytes of all that share it. */
  get max(): number {
    return this.#disk?.max ?? Number.POSITIVE_INFINITY
  }

  /** When it returns false, `freed` is called soon: nobody else reports that others have left room. */
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

  /** What is left on the disk stays counted. */
  close(): void {
    const bytes = this.#buffer.bytes()
    this.#disk?.count(this.#buffer.path, () => bytes)
  }
}
