import type { Condition } from '../../../core/condition/parse.js'
import type { Operation } from './step.js'

/** A step of the configuration. What was given stays in it, so that the files that it names can be checked. */
export interface Step {
  readonly [given: string]: unknown
  readonly name: string
  readonly when: Condition | undefined
  readonly operations: readonly Operation[]
}

/** The names of the fields that steps may set, at the top of the event. */
export function namesOf(steps: readonly Step[]): string[] {
  const written = steps.flatMap(({ operations }) => operations.flatMap(({ writes }) => writes))
  return [...new Set(written.map(({ segments }) => segments[0]))]
}

/** Follows which fields have changes that readers do not see yet. */
export class Pending {
  readonly #names = new Set<string>()

  /** Whether what reads these fields needs the changes so far to be written before, as they then count. */
  flushFor(reads: Operation['reads']): boolean {
    const isNeeded = reads === 'all' ? this.#names.size > 0 : reads.some(({ segments }) => this.#names.has(segments[0]))
    if (isNeeded) this.#names.clear()
    return isNeeded
  }

  add(writes: Operation['writes']): void {
    for (const { segments } of writes) this.#names.add(segments[0])
  }
}
