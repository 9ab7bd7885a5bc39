import type { FieldPath } from '../../../core/event/field-path.js'
import { MISSING, STRING } from '../../../core/event/field-reader.js'
import { fieldPath } from '../../../core/options/options.js'
import { byField, cannotBeSet, defineStep, type Operation } from './step.js'

function copyField(from: FieldPath, to: FieldPath): Operation {
  return {
    reads: [from],
    writes: [to],
    compile({ editor, field }) {
      const reader = field(from)
      const target = editor.field(to)
      return (batch, i) => {
        if (reader.load(batch, i) === MISSING) return undefined
        const { bytes, start, end } = reader
        if (bytes.length === 0) return editor.set(target, reader.value()) ? undefined : cannotBeSet(to)
        const isText = reader.kind === STRING && reader.plain
        const isSet = isText ? editor.setText(target, bytes, start, end) : editor.setJson(target, bytes, start, end)
        return isSet ? undefined : cannotBeSet(to)
      }
    },
  }
}

export const copy = defineStep({
  name: 'copy',
  schema: byField(fieldPath()).describe(
    'Copies the values of fields to other paths: `{ .client.ip: .ip }`. A field that is missing changes nothing.',
  ),
  operations: given => given.map(([from, to]) => copyField(from, to)),
})
