/** A period in which a source has more input than it could pass on. All batches of the period share this object. */
export interface Behind {
  /** The last moment at which the source had nothing left to read, on the monotonic clock, in milliseconds. */
  readonly since: number
  /** Whether the source has caught up. */
  isOver: boolean
}
