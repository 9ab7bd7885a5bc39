/** Disk space that buffers and dead-letter files share. */
export interface DiskAllowance {
  readonly max: number
  hasRoom(bytes: number): boolean
  /**
   * Counts the size of a file or folder from now on. Replaces an earlier registration of the path. When there is no
   * room, calls `release`, which removes data that is no longer needed.
   */
  count(path: string, bytes: () => number, release?: () => void): void
}
