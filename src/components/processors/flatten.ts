import { defineProcessor } from '../../core/component.js'
import { flattenOptions } from './flatten/options.js'

export const flatten = defineProcessor({
  type: 'flatten',
  summary: 'Flattens nested fields into one level, or nests them again.',
  notes:
    'Values are copied as they are written, empty objects and arrays too; an event with nothing to change stays as it was read. ' +
    'If two fields get the same name, the last one counts. ' +
    'Events grow because names are repeated: by at most 1 MiB or to twice their length, whichever is more. Of the events that a source reads at once, those that become more than 16 times as long may take 8 MiB together. An event that would exceed a limit is handled as set by `on_error`.\n\n' +
    'With `mode: nest`, the names of the top level are divided. If an object exists, the fields are added to it. A name stays as it is if its place has a value that is not an object: `{"a":1,"a.b":2}` does not change. A number in a name becomes a field name, not an array position.',
  options: flattenOptions,
  fields: () => undefined,
  examples: [
    {
      title: 'Columns of a table',
      yaml: 'separator: _\n',
      input: ['{"http":{"status":200,"path":"/a"},"tags":["x"],"host":"web-1"}', '{"host":"web-2"}'],
      output: ['{"http_status":200,"http_path":"/a","tags":["x"],"host":"web-1"}', '{"host":"web-2"}'],
    },
    {
      title: 'Nested again',
      yaml: 'mode: nest\n',
      input: ['{"http.status":200,"host":"web-1","http.path":"/a"}'],
      output: ['{"http":{"status":200,"path":"/a"},"host":"web-1"}'],
    },
  ],
  create: async options => new (await import('./flatten/flattener.js')).Flatten(options),
})
