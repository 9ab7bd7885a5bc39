import { type Command, command } from '../command-line.js'

const FILE = { name: 'FILE', min: 1, max: 1, text: 'The configuration: a YAML file, or a folder of them.' }

/** Commands that look into a configuration, and try it out. */
export const lookCommands: readonly Command[] = [
  command({
    name: 'test',
    summary: 'Runs the tests of a configuration: events in, the expected events out, with steps in time.',
    text: [
      'The tests are in the section `tests`. Nothing is read but the configuration, nothing is delivered, and no time passes: sources give the events of the test, destinations keep what they get, and processors see the time that the steps tell. The exit code is 1 when a test fails.',
    ],
    options: {},
    operands: FILE,
    examples: [{ title: 'before a change goes out', line: 'sluice test sluice.yaml' }],
    async run({ operands }, io) {
      const { test } = await import('../test.js')
      return test(operands[0]!, io)
    },
  }),
  command({
    name: 'graph',
    summary: 'Draws which component of a configuration feeds which: as text, for Mermaid or for Graphviz.',
    options: { format: { type: 'string', value: 'FORMAT', text: 'How: text (default), mermaid or dot.' } },
    operands: FILE,
    examples: [
      { title: 'in the terminal', line: 'sluice graph sluice.yaml' },
      { title: 'as a picture', line: 'sluice graph --format dot sluice.yaml | dot -Tsvg > pipeline.svg' },
    ],
    async run({ options, operands }, io) {
      const { graph } = await import('../graph.js')
      return graph(operands[0]!, options.format ?? 'text', io)
    },
  }),
]
