import { type Command, command } from '../../terminal/command-line.js'

const CONFIG = {
  type: 'string',
  short: 'c',
  value: 'FILE',
  required: true,
  operand: true,
  text: 'The configuration with the section `service`.',
} as const

/** Commands that run the service or administer it on its machine. */
export const serviceCommands: readonly Command[] = [
  command({
    name: 'serve',
    summary: 'Runs the service: accounts, keys, pipelines and ingest over HTTP, under /v3.',
    text: [
      'The first keys come from sluice admin init. SIGTERM and SIGINT end it in order: requests under way are answered; a second signal leaves at once.',
      'The log goes to standard error: lines of text on a terminal, JSON anywhere else; `log.format` chooses. /metrics, /healthz and /readyz are served where metrics.listen says, 127.0.0.1:9599 without it.',
    ],
    options: { config: CONFIG },
    examples: [{ title: 'with one line of configuration', line: 'sluice serve --config service.yaml' }],
    async run({ options }, io) {
      const { serve } = await import('../../serve/serve.js')
      return serve({ configPath: options.config }, io)
    },
  }),
  command({
    name: 'admin init',
    summary: 'Makes the first enterprise, account, manager and keys, and prints them, this once.',
    text: [
      'Once, before or while sluice serve runs, as the user that it runs as. The keys are not kept anywhere in clear.',
    ],
    options: {
      config: CONFIG,
      json: { type: 'boolean', text: 'Prints one line of JSON.' },
      email: { type: 'string', value: 'ADDRESS', text: 'E-mail address of the manager.' },
      enterprise: { type: 'string', value: 'TITLE', text: 'Title of the enterprise.' },
      account: { type: 'string', value: 'TITLE', text: 'Title of the account.' },
    },
    examples: [
      {
        title: 'keys to a file that nobody else reads',
        line: '(umask 077; sluice admin init --config service.yaml --json > keys.json)',
      },
    ],
    async run({ options }, io) {
      const { init } = await import('../../serve/admin.js')
      return init(options, io)
    },
  }),
  command({
    name: 'admin backup',
    summary: 'Copies what the service keeps to a new folder, also while it runs.',
    text: [
      'That is its store, the secret of its keys, and what its pipelines keep: events in disk buffers, dead letters and idempotency keys. The configuration file, and the files that it names, are not copied.',
      'Events in disk buffers of destinations that are delivered after the backup come twice when it is restored.',
    ],
    options: {
      config: CONFIG,
      to: { type: 'string', value: 'FOLDER', required: true, text: 'A folder that does not exist yet.' },
    },
    examples: [
      { title: 'every night', line: 'sluice admin backup --config service.yaml --to /backup/sluice-$(date +%F)' },
    ],
    async run({ options }, io) {
      const { backup } = await import('../../serve/admin.js')
      return backup(options, io)
    },
  }),
  command({
    name: 'admin restore',
    summary: 'Puts a backup in place. The service must not run.',
    options: {
      config: CONFIG,
      from: { type: 'string', value: 'FOLDER', required: true, text: 'The folder that a backup was made to.' },
      replace: { type: 'boolean', text: 'Also where there is a store already: it is kept beside the new one.' },
      'store-only': {
        type: 'boolean',
        text: 'Leaves out what the pipelines keep: their buffers, dead letters and idempotency keys stay as they are here.',
      },
    },
    examples: [
      {
        title: 'on a new machine',
        line: 'sluice admin restore --config service.yaml --from /backup/sluice-2031-02-03',
      },
    ],
    async run({ options }, io) {
      const { restore } = await import('../../serve/admin.js')
      return restore(options, io)
    },
  }),
]
