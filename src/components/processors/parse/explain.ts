import type { ComponentContext } from '../../../core/component.js'
import { MISSING } from '../../../core/event/field-reader.js'
import type { Finding, FindingsOf } from '../../../core/explain.js'
import { Members } from '../../../lib/formats/members.js'
import type { ParseOptions } from '../parse.js'
import { loadedCodecs } from './codec-options.js'
import { TypedMembers } from './typed-members.js'

/** Says which codecs can read the text of the field, up to the first one that can, and why the others cannot. */
export function explainParse({ field, types, ...rest }: ParseOptions, context: ComponentContext): FindingsOf {
  const reader = context.field(field)
  const codecs = loadedCodecs(rest, context.reach)
  const typed = Object.keys(types).length > 0 ? new TypedMembers(types) : undefined
  const members = typed ?? new Members()
  return batch => {
    if (reader.load(batch, 0) === MISSING) return [{ text: `the event has no field ${field.text}`, holds: false }]
    // A scan needs a byte to stop at.
    const bytes = Buffer.from(`${reader.text()}\n`)
    const end = bytes.length - 1
    const findings: Finding[] = []
    if (typed) typed.receivedAt = batch.receivedAt
    for (const codec of codecs) {
      members.clear()
      const isRead = codec.read(bytes, 0, end, members, batch.receivedAt)
      const holds = isRead && typed?.problem === undefined
      const value = holds ? undefined : isRead ? typed?.problem : codec.problem?.(bytes, 0, end)
      const text = `codec ${codec.name}: ${field.text} is ${codec.definition.expects}`
      findings.push({ text, holds, ...(value !== undefined && { value }) })
      if (holds) break
    }
    return findings
  }
}
