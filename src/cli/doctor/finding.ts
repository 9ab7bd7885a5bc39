import type { ReportedProblem } from '../../core/status-document.js'

export interface MachineFault extends ReportedProblem {
  /** What was checked, as in `disk`. */
  readonly area: string
  /** A path that the user of the daemon cannot use. `bits`: the missing permissions, as in a file mode. */
  readonly access?: { readonly path: string; readonly bits: number; readonly isSecret?: boolean }
}

/** `what`: false if nothing is wrong. */
export const finding = (area: string, what: string | false, todo: string, ...commands: string[]): MachineFault[] =>
  what === false ? [] : [{ area, what, todo, commands }]

/** How many files the sources match, what they read, and the files that destinations write. All paths are absolute. */
export type Facts = { readonly files: number; readonly reads: readonly string[]; readonly writes: readonly string[] }
/** `facts`: missing if the configuration is invalid. */
export type Examination = { readonly findings: readonly MachineFault[]; readonly facts?: Facts }
