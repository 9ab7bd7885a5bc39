import { defineSource } from '../../core/component.js'
import { fieldsOfLines } from '../../core/event/event-fields.js'
import { MULTILINE_NOTES } from '../../core/options/multiline-options.js'
import { stdioOptions } from './options.js'

export const stdin = defineSource({
  type: 'stdin',
  summary: 'Reads standard input; the run ends when the input ends.',
  single: 'standard input',
  notes: `A configuration can have one source of this type. Standard input cannot be read again: events that were read and not delivered are lost if the process is killed. ${MULTILINE_NOTES}`,
  promises: {
    guarantee: 'A kill loses events that were not delivered.',
    order: 'Events keep their order.',
    duplicates: 'Standard input cannot be read again.',
    limits: '`max_line_bytes` (1 MiB) for a line. While a destination waits, the writer waits.',
    tested: 'Pipes and files.',
  },
  options: stdioOptions,
  examples: [
    { title: 'JSON lines from a pipe', yaml: 'decode: json\n' },
    { title: 'Stack traces joined to the message before them', yaml: 'multiline: { preset: [java, node] }\n' },
  ],
  fields: ({ decode }) => fieldsOfLines(decode),
  create: async (options, context) => new (await import('./stdin-source.js')).StdinSource(options, context),
})
