/** How much several buffers and dead-letter files may take on the disk together. */
export interface DiskAllowance {
  readonly max: number
  /** Whether `bytes` more may be written. */
  hasRoom(bytes: number): boolean
  /**
   * Counts what a file or folder takes from now on, in the place of what was counted for this path. `release` is called
   * when there is no room: it removes what is not needed any more.
   */
  count(path: string, bytes: () => number, release?: () => void): void
}
