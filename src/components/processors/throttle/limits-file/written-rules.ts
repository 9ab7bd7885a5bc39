/** Rules as they stand in a file, before they are checked. */

/** A rule, and where its options are. */
export interface Written {
  readonly value: unknown
  /** The line of what is at a path in the rule, or of the nearest that there is, from 1. */
  readonly lineOf: (path: readonly PropertyKey[]) => number
}

export interface WrittenProblem {
  readonly line: number
  /** In the list; the first element is the index of the rule. */
  readonly path: readonly PropertyKey[]
  readonly message: string
}

export type WrittenRules = { readonly rules: readonly Written[] } | { readonly problems: readonly WrittenProblem[] }
