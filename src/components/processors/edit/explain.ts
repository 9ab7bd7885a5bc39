import { explainCondition } from '../../../core/condition/explain.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { Growth } from '../../../core/event/growth.js'
import type { Finding, FindingsOf } from '../../../core/explain.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { ROOM_MIB } from './edit-processor.js'
import type { Apply, Step, Tools } from './step.js'

/** Says for each step whether it was done, as the event was then. */
export async function explainSteps(steps: readonly Step[], tools: Tools): Promise<FindingsOf> {
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

/** Applies the operations of a step, each to what the one before it made. */
function applyAll(
  operations: readonly Apply[],
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
