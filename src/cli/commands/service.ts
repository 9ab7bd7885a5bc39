import { type Command, command } from '../../daemon/process/command-line.js'
import { preload } from '../../lib/preload.js'
import { CONFIG } from './inspect.js'

const SERVICE = { ...CONFIG, text: 'The configuration with the section `service`.' } as const

/** Commands that run the service or administer it on its machine. */
export const serviceCommands: readonly Command[] = [
  command({
    name: 'serve',
    summary: 'Runs the service: accounts, keys, pipelines, ingest.',
    text: [
      'The API is under /v3. sluice admin init creates the first keys. SIGTERM and SIGINT stop it gracefully: requests in progress are answered. A second signal exits immediately.',
      'The log is written to standard error, as text on a terminal and as JSON elsewhere, unless `log.format` is set. /metrics, /healthz and /readyz are served at metrics.listen, by default 127.0.0.1:9599.',
    ],
    options: { config: SERVICE },
    examples: [{ title: 'with one line of configuration', line: 'sluice serve --config service.yaml' }],
    async run({ options }, io) {
      preload(new URL('../../daemon/serve/serve.js', import.meta.url))
      const { serve } = await import('../../daemon/serve/serve.js')
      return serve({ configPath: options.config }, io)
    },
  }),
  command({
    name: 'admin init',
    summary: 'Creates the first enterprise, account, manager and keys, and prints the keys once.',
    text: ['Run it once, before or while sluice serve runs, as the same user. The keys are not stored in plain text.'],
    options: {
      config: SERVICE,
      json: { text: 'Prints one line of JSON.' },
      email: { value: 'ADDRESS', text: 'E-mail address of the manager.' },
      enterprise: { value: 'TITLE', text: 'Title of the enterprise.' },
      account: { value: 'TITLE', text: 'Title of the account.' },
    },
    examples: [
      {
        title: 'keys to a file that only you can read',
        line: '(umask 077; sluice admin init --config service.yaml --json > keys.json)',
      },
    ],
    run: async ({ options }, io) => (await import('../../daemon/serve/admin.js')).init(options, io),
  }),
  command({
    name: 'admin backup',
    summary: 'Copies the data of the service to a new folder, also while it runs.',
    text: [
      'The data are its store, the secret of its keys, and the data of its pipelines: events in disk buffers and dead-letter queues, and idempotency keys. The configuration file and the files that it names are not copied.',
      'A restored backup delivers the events in its disk buffers again, also if they were delivered since.',
    ],
    options: {
      config: SERVICE,
      to: { value: 'FOLDER', required: true, text: 'A folder that does not exist yet.' },
    },
    examples: [
      { title: 'every night', line: 'sluice admin backup --config service.yaml --to /backup/sluice-$(date +%F)' },
    ],
    run: async ({ options }, io) => (await import('../../daemon/serve/admin.js')).backup(options, io),
  }),
  command({
    name: 'admin restore',
    summary: 'Restores a backup. The service must not be running.',
    options: {
      config: SERVICE,
      from: { value: 'FOLDER', required: true, text: 'The folder of the backup.' },
      replace: { text: 'Replaces an existing store, which is kept beside the new one.' },
      'store-only': {
        text: 'Does not restore the data of the pipelines: existing buffers, dead-letter queues and idempotency keys stay.',
      },
    },
    examples: [
      {
        title: 'on a new machine',
        line: 'sluice admin restore --config service.yaml --from /backup/sluice-2031-02-03',
      },
    ],
    run: async ({ options }, io) => (await import('../../daemon/serve/admin.js')).restore(options, io),
  }),
]
