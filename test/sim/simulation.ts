/** The run of a seed. */
export interface Outcome {
  readonly seed: number
  /** What kind of world it made, where there are several. */
  readonly kind?: string
  readonly violations: readonly string[]
  readonly trace: readonly string[]
  /** The same for the same run. */
  readonly fingerprint: string
}

/** What `npm run sim` can run. */
export interface Simulation {
  /** How many seeds, by default. */
  readonly seeds: number
  /** Runs a seed, and counts it unless it is traced. */
  run(seed: number, traced?: boolean): Promise<Outcome>
  /** What was counted so far, in a few words. */
  total(): string
  /** All that was counted. */
  lines(): string[]
}
