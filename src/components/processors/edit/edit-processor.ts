import type { Processor } from '../../../core/component.js'
import { compileCondition, type EventTest, pathsOf } from '../../../core/condition/condition.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EventEditor } from '../../../core/event/event-editor.js'
import { Growth, mostOf } from '../../../core/event/growth.js'
import type { Finding, FindingsOf } from '../../../core/explain.js'
import { type BatchScope, FAILED } from '../../../core/processor.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import type { ApplyStep, EditStep, Operation, Tools } from './step.js'

/** Maximum total size, in MiB, of those events of a batch that grow a lot. */
const ROOM_MIB = 32

/** `isFlushed`: whether earlier changes are written before the operation, because the operation reads them. */
interface CompiledOperation {
  readonly isFlushed: boolean
  readonly apply: ApplyStep
}

interface CompiledStep {
  readonly isFlushed: boolean
  readonly when: EventTest | undefined
  readonly operations: readonly CompiledOperation[]
}

/** Tracks fields with changes that readers do not see yet. */
class Pending {
  readonly #names = new Set<string>()

  /** Returns whether changes must be written before these fields are read. If so, marks all changes as written. */
  flushFor(reads: Operation['reads']): boolean {
    const isNeeded = reads === 'all' ? this.#names.size > 0 : reads.some(({ segments }) => this.#names.has(segments[0]))
    if (isNeeded) this.#names.clear()
    return isNeeded
  }

  add(writes: Operation['writes']): void {
    for (const { segments } of writes) this.#names.add(segments[0])
  }
}

export async function compileSteps(steps: readonly EditStep[], tools: Tools): Promise<CompiledStep[]> {
  const pending = new Pending()
  const compiled: CompiledStep[] = []
  for (const { when, operations } of steps) {
    const isFlushed = pending.flushFor(pathsOf(when))
    const made: CompiledOperation[] = []
    for (const { reads, writes, compile } of operations) {
      const isFlushed = pending.flushFor(reads)
      made.push({ isFlushed, apply: await compile(tools) })
      pending.add(writes)
    }
    compiled.push({ isFlushed, when: when && compileCondition(when, tools.field), operations: made })
  }
  return compiled
}

export class Edit implements Processor {
  readonly #editor: EventEditor
  readonly #steps: readonly CompiledStep[]
  readonly #growth = new Growth(ROOM_MIB)

  constructor(editor: EventEditor, steps: readonly CompiledStep[]) {
    this.#editor = editor
    this.#steps = steps
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    this.#growth.begin()
    for (let i = 0; i < batch.length; i++) {
      const problem = this.#edit(batch, i)
      if (problem === undefined) continue
      batch.restoreEvent(i)
      to[i] = FAILED
      scope.because(i, problem)
    }
  }

  /** Returns why a step failed; undefined: all steps succeeded. */
  #edit(batch: EventBatch, i: number): string | undefined {
    const editor = this.#editor
    editor.open(batch, i)
    let size = 0
    let grown = 0
    for (let s = 0; s < this.#steps.length; s++) {
      const { isFlushed, when, operations } = this.#steps[s]!
      if (isFlushed) this.#flush(batch, i)
      if (when && !when(batch, i)) continue
      for (let n = 0; n < operations.length; n++) {
        const { isFlushed, apply } = operations[n]!
        if (isFlushed) this.#flush(batch, i)
        const problem = apply(batch, i)
        if (problem !== undefined) return problem
        size ||= editor.size
        grown = editor.grown || grown
        // Checks the size each time, because each step may double it.
        if (grown > mostOf(size)) return this.#growth.refuse(size, grown)
      }
    }
    editor.close()
    return this.#growth.refuse(size, grown)
  }

  /** Writes the changes made so far, so that readers see them. */
  #flush(batch: EventBatch, i: number): void {
    this.#editor.close()
    this.#editor.open(batch, i)
  }
}

/** Reports for each step whether it applied to the result of the previous steps. */
export async function explainSteps(steps: readonly EditStep[], tools: Tools): Promise<FindingsOf> {
  const { explainCondition } = await import('../../../core/condition/explain.js')
  const compiled = await Promise.all(
    steps.map(async ({ name, when, operations }) => ({
      name,
      explain: when && explainCondition(when, path => tools.field(path)),
      apply: await Promise.all(operations.map(({ compile }) => compile(tools))),
    })),
  )
  return given => {
    const batch = given.snapshot()
    const size = Buffer.byteLength(jsonText(batch.fields(0)))
    const findings: Finding[] = []
    for (const [s, { name, explain, apply }] of compiled.entries()) {
      const text = `steps[${s}]: ${name}`
      const condition = explain?.(batch, 0)
      const parts = condition ? { parts: [condition] } : {}
      if (condition && !condition.holds) {
        findings.push({ text, holds: false, ...parts })
        continue
      }
      const before = jsonText(batch.fields(0))
      const problem = applyAll(apply, batch, size, tools)
      if (problem !== undefined) return [...findings, { text, holds: false, value: problem, ...parts }]
      const isSame = jsonText(batch.fields(0)) === before
      findings.push({ text, holds: true, ...(isSame && { value: 'nothing to change' }), ...parts })
    }
    return findings
  }
}

function applyAll(
  operations: readonly ApplyStep[],
  batch: EventBatch,
  size: number,
  { editor }: Tools,
): string | undefined {
  for (const apply of operations) {
    editor.open(batch, 0)
    const problem = apply(batch, 0) ?? refused(size, editor.grown)
    if (problem !== undefined) return problem
    editor.close()
  }
  return undefined
}

function refused(size: number, grown: number): string | undefined {
  const growth = new Growth(ROOM_MIB)
  growth.begin()
  return growth.refuse(size, grown)
}
