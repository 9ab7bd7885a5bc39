import { type Command, command } from '../../daemon/process/command-line.js'
import { loadService } from '../wings.js'
import { CONFIG } from './inspect.js'

const admin = async () => (await loadService()).loadAdmin()

const SERVICE = { ...CONFIG, text: 'The configuration with the section `service`.' } as const

const EXPORT = { name: 'FILE', min: 1, max: 1, takes: 'file' } as const

/** Commands that run the service, or administer it on the machine where it runs. */
export const serviceCommands: readonly Command[] = [
  command({
    name: 'serve',
    summary: 'Runs the service: accounts, keys, pipelines, ingest.',
    text: [
      'The API is under /v3. sluice admin init creates the first keys. SIGTERM and SIGINT stop the service gracefully: it answers the requests in progress. At a second signal, the service exits immediately.',
      'The log is written to standard error, as text on a terminal and as JSON elsewhere, unless `log.format` is set. /metrics, /livez (also as /healthz) and /readyz are served at metrics.listen, by default 127.0.0.1:9599.',
    ],
    options: { config: SERVICE },
    examples: [{ title: 'with one line of configuration', line: 'sluice serve --config service.yaml' }],
    run: async ({ options }, io) => (await (await loadService()).loadServe()).serve({ configPath: options.config }, io),
  }),
  command({
    name: 'admin init',
    summary: 'Creates the first enterprise, account, manager and keys, and prints the keys once.',
    text: [
      'Run this command once, as the user of sluice serve, before or while sluice serve runs. The keys are not stored in plain text.',
    ],
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
    run: async ({ options }, io) => (await admin()).init(options, io),
  }),
  command({
    name: 'admin backup',
    summary: 'Copies the data of the service to a new folder, even while the service runs.',
    text: [
      'The copy contains the store, the secret of the keys, and the data of the pipelines: events in disk buffers and dead-letter queues, and idempotency keys. The configuration file and the files that it names are not copied.',
      'After a restore, the service delivers the events in the copied disk buffers again, even if it delivered them after the backup.',
    ],
    options: {
      config: SERVICE,
      to: { value: 'FOLDER', required: true, text: 'A folder that does not exist yet.' },
    },
    examples: [
      { title: 'every night', line: 'sluice admin backup --config service.yaml --to /backup/sluice-$(date +%F)' },
    ],
    run: async ({ options }, io) => (await admin()).backup(options, io),
  }),
  command({
    name: 'admin restore',
    summary: 'Restores a backup. The service must not be running.',
    options: {
      config: SERVICE,
      from: { value: 'FOLDER', required: true, text: 'The folder of the backup.' },
      replace: { text: 'Moves an existing store to the folder replaced-N in data_dir, instead of failing.' },
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
    run: async ({ options }, io) => (await admin()).restore(options, io),
  }),
  command({
    name: 'admin export',
    summary: 'Writes the store of the service to a new file, even while the service runs.',
    text: [
      'The file contains accounts, users, keys, pipelines, secrets and the audit log. A store of either kind, SQLite or PostgreSQL, can import it. Secrets stay encrypted and keys stay hashed, so an import also needs the file `secret` from data_dir.',
    ],
    options: { config: SERVICE },
    operands: { ...EXPORT, text: 'A file that does not exist yet. Only its owner can read it.' },
    examples: [
      { title: 'before the move to PostgreSQL', line: 'sluice admin export store.export --config service.yaml' },
    ],
    run: async ({ options, operands }, io) => (await admin()).exportTo(operands[0]!, options.config, io),
  }),
  command({
    name: 'admin import',
    summary:
      'Saves an export in the store that the configuration names, which must be empty. The service must not be running.',
    text: [
      'Saves either all records or nothing, and compares each saved record with the file. Rejects a file that was changed or cut off. data_dir must contain the file `secret` of the exported store. Run the command as the user of the service.',
    ],
    options: { config: SERVICE },
    operands: { ...EXPORT, text: 'A file that sluice admin export wrote.' },
    examples: [{ title: 'after `store` was changed', line: 'sluice admin import store.export --config service.yaml' }],
    run: async ({ options, operands }, io) => (await admin()).importFrom(operands[0]!, options.config, io),
  }),
]
