import { defineStep, fieldList } from './step.js'

export const remove = defineStep({
  name: 'remove',
  schema: fieldList().describe('Removes fields. One that is missing changes nothing.'),
  operations: given =>
    given.map(path => ({
      reads: [],
      writes: [path],
      compile({ editor }) {
        const field = editor.field(path)
        return () => {
          editor.remove(field)
          return undefined
        }
      },
    })),
})
