import type { Problem } from '../../daemon/status/problems.js'

export interface Finding extends Problem {
  /** What was checked, as in `disk`. */
  readonly area: string
  /** A path that the user of the daemon cannot use. `bits`: the missing permissions, as in a file mode. */
  readonly access?: { readonly path: string; readonly bits: number; readonly isSecret?: boolean }
}

/** `what`: false if nothing is wrong. */
export const finding = (area: string, what: string | false, todo: string, ...commands: string[]): Finding[] =>
  what === false ? [] : [{ area, what, todo, commands }]

/** What the checks of the unit need to know of the configuration. All paths are absolute. */
export interface Facts {
  /** How many files the sources match. */
  readonly files: number
  /** Paths and patterns that the sources read. */
  readonly reads: readonly string[]
  /** Files that the destinations write. */
  readonly writes: readonly string[]
}

/** The results of the checks that the user of the daemon makes. `facts`: missing if the configuration is invalid. */
export type Examination = { readonly findings: readonly Finding[]; readonly facts?: Facts }
