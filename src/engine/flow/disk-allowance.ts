/** Disk space that buffers and dead-letter files share. */
export interface DiskAllowance {
  /** Undefined if only the free space of the disk is limited. */
  readonly max?: number
  /** `isState`: whether the data is small and must be saved, so that it may use the reserve of the disk. */
  hasRoom(bytes: number, isState?: boolean): boolean
  /**
   * Counts the size of a file or folder from now on. Replaces an earlier registration of the path. When there is no
   * room, calls `release`, which removes data that is no longer needed.
   */
  count(path: string, bytes: () => number, release?: () => void): void
}
