import type { FieldPath } from '../../../core/event/field-path.js'
import { fieldPath } from '../../../core/options/options.js'
import { byField, cannotBeSet, defineStep, type Operation } from './step.js'

function renameField(from: FieldPath, to: FieldPath): Operation {
  return {
    reads: [],
    writes: [from, to],
    needs: [from],
    compile({ editor }) {
      const [field, target] = [editor.field(from), editor.field(to)]
      return () => (editor.rename(field, target) || !editor.has(field) ? undefined : cannotBeSet(to))
    },
  }
}

const operations = (given: readonly (readonly [FieldPath, FieldPath])[]) =>
  given.map(([from, to]) => renameField(from, to))

export const rename = defineStep({
  name: 'rename',
  schema: byField(fieldPath()).describe(
    'Gives fields another path, where each replaces what is there: `{ .msg: .message }`. Within the same object a field keeps its place. A field that is missing changes nothing.',
  ),
  operations,
})

export const move = defineStep({
  name: 'move',
  schema: byField(fieldPath()).describe('Another word for `rename`, for a field that gets into another object.'),
  operations,
})
