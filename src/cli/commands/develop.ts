import { type Command, command } from '../../daemon/process/command-line.js'

/** Commands for authors of plugins, and for the documentation. */
export const developCommands: readonly Command[] = [
  command({
    name: 'new',
    summary: 'Writes an example of a plugin, and its test.',
    text: [
      'Makes a folder NAME with the code, a test for `node --test`, and a configuration that uses the plugin. Everything works without a change.',
    ],
    options: {
      typescript: { text: 'Writes TypeScript. Sluice removes the types when it loads the plugin.' },
    },
    operands: {
      name: 'KIND NAME',
      min: 2,
      max: 2,
      takes: ['processor', 'source', 'destination', 'codec'],
      text: 'KIND is processor, source, destination or codec; NAME is the type in configurations, or the name of the codec.',
    },
    examples: [
      { title: 'a processor', line: 'sluice new processor mask_names' },
      { title: 'a codec in TypeScript', line: 'sluice new codec house_log --typescript' },
    ],
    run: async ({ options, operands }, io) => (await import('../new/new.js')).newPlugin(operands, options, io),
  }),
  command({
    name: 'docs config',
    summary: 'Writes the reference of the configuration and its JSON Schema.',
    text: ['With a configuration, both include the components and codecs of its plugins.'],
    options: {
      config: { short: 'c', value: 'FILE', text: 'The configuration with the plugins.' },
      out: {
        value: 'FOLDER',
        text: 'The folder for both files. With --config, the default is the current folder, otherwise the folder `config` where Sluice is installed.',
      },
    },
    examples: [
      { title: 'after an option was changed', line: 'sluice docs config' },
      { title: 'with the options of plugins, for use in an editor', line: 'sluice docs config --config sluice.yaml' },
    ],
    run: async ({ options }, io) => (await import('../docs.js')).docs(io, options),
  }),
]
