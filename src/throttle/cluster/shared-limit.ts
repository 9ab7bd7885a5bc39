/** The limit that all members of a group share. */
export interface SharedLimit {
  readonly mode: 'fixed' | 'aligned' | 'gcra'
  readonly limit: number
  readonly windowMs: number
  /** gcra: units above the smooth rate. */
  readonly burst: number
  /** The greatest part of what is left of the limit that a member may take ahead; 0: it asks for each event. */
  readonly part: number
}

/** The part of the limit, and of what is left of it, that a member takes ahead at most. */
export const LEASED_PART = 0.1

/** The speeds of two clocks may differ by this part: ten times what clocks of computers are off by. */
export const CLOCK_MARGIN = 0.001
