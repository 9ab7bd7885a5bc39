import { existsSync } from 'node:fs'
import type { Client, ListPage, PageOptions } from '../../daemon/client/client.js'
import { type Command, command, wholeNumber } from '../../daemon/process/command-line.js'
import { shellWord } from '../../lib/shell-word.js'
import { loadService } from '../wings.js'

const ENVIRONMENT =
  'The variable SLUICE_URL sets the address, SLUICE_ACCESS_KEY sets the key, and SLUICE_CA_FILE names a file of authorities to trust; options override these variables.'
const PRINTS = `Prints the response of the service: as text on a terminal, otherwise as JSON. ${ENVIRONMENT}`

const CONNECTION = {
  url: { value: 'URL', text: 'URL of the service, as in http://127.0.0.1:8080.' },
  'key-file': { value: 'FILE', text: 'File with the access key.' },
  delegate: { value: 'ACCOUNT_ID', text: 'Acts within this account. Only for keys of an enterprise service account.' },
  'ca-file': {
    value: 'FILE',
    text: 'PEM file of the certificate authorities to trust, instead of the public authorities.',
  },
  json: { text: 'Prints JSON even on a terminal.' },
} as const

const id = (text: string) => ({ name: 'ID', min: 1, max: 1, text })
const load = async () => (await loadService()).loadApi()
const words = (text: string | undefined) => text?.split(',').map(word => word.trim())

const LISTS: readonly {
  readonly name: string
  readonly summary: string
  readonly all: (client: Client) => (page: PageOptions) => Promise<ListPage<unknown>>
}[] = [
  { name: 'pipelines', summary: 'Lists the pipelines of the account.', all: client => client.pipelines.all },
  {
    name: 'keys',
    summary: 'Lists the personal keys of the calling user. The keys themselves are not shown.',
    all: client => client.keys.all,
  },
  {
    name: 'service-accounts',
    summary: 'Lists the service accounts, with the last use and the expiry of their keys.',
    all: client => client.serviceAccounts.all,
  },
]

/** Commands that call the service. Longer names come first, because the first match is used. */
export const apiCommands: readonly Command[] = [
  command({
    name: 'fleet',
    summary: 'Shows the daemons that run pipelines of the service.',
    text: [
      `The command shows the revision of each daemon, and which daemons are behind. The state is ready, holding (a destination is paused), starting, failed, or silent (without a report for five minutes). ${ENVIRONMENT}`,
    ],
    options: CONNECTION,
    examples: [{ title: 'pipelines and their daemons', line: 'sluice fleet' }],
    run: async ({ options }, io) => (await (await loadService()).loadFleet()).fleet(options, io),
  }),
  command({
    name: 'api whoami',
    summary: 'Shows the type, subject, account, scopes and expiry of the access key.',
    text: [PRINTS],
    options: CONNECTION,
    examples: [{ title: 'who am I?', line: 'sluice api whoami' }],
    run: async ({ options }, io) => (await load()).withClient(options, io, client => client.whoami()),
  }),
  ...LISTS.map(({ name, summary, all }) =>
    command({
      name: `api ${name}`,
      summary,
      text: [PRINTS],
      options: CONNECTION,
      examples: [{ title: 'all of them', line: `sluice api ${name}` }],
      async run({ options }, io) {
        const { allOf, withClient } = await load()
        return withClient(options, io, client => allOf(all(client)))
      },
    }),
  ),
  command({
    name: 'api validate-key',
    summary: 'Checks the access key. The exit code is 0 if the key is valid, otherwise 1.',
    text: [ENVIRONMENT],
    options: CONNECTION,
    examples: [{ title: 'before a daemon gets the key', line: 'sluice api validate-key --key-file access-key' }],
    async run({ options }, io) {
      return (await load()).withClient(options, io, async client => {
        await client.whoami()
        return { valid: true }
      })
    },
  }),
  command({
    name: 'api create-service-account',
    summary: 'Creates a service account, and shows its key once.',
    text: [PRINTS],
    options: {
      ...CONNECTION,
      title: { value: 'TEXT', text: 'Purpose of the service account.' },
      scopes: { value: 'LIST', text: 'Scopes of its key, as in pipeline:read,ingest:write.' },
      'expires-in': { value: 'DURATION', text: 'How long its key is valid, as in "720 Hours".' },
    },
    examples: [
      {
        title: 'for daemons that only send',
        line: 'sluice api create-service-account --title shippers --scopes ingest:write,pipeline:read',
      },
    ],
    async run({ options }, io) {
      const { title, scopes, 'expires-in': expires_in } = options
      const input = { title, scopes: words(scopes) as never, expires_in }
      return (await load()).withClient(options, io, client => client.serviceAccounts.create(input))
    },
  }),
  command({
    name: 'api rotate',
    summary: 'Creates a new key for a service account, shows it once, and revokes the old key.',
    text: [PRINTS],
    options: {
      ...CONNECTION,
      grace: {
        value: 'DURATION',
        text: 'How long the old key remains valid. Default: the key is revoked immediately.',
      },
      'expires-in': { value: 'DURATION', text: 'How long the new key is valid.' },
    },
    operands: id('The service account.'),
    examples: [{ title: 'with an hour to distribute the new key', line: 'sluice api rotate ID --grace "1 Hours"' }],
    async run({ options, operands }, io) {
      const { grace, 'expires-in': expires_in } = options
      return (await load()).withClient(options, io, client =>
        client.serviceAccounts.rotate(operands[0]!, { grace, expires_in }),
      )
    },
  }),
  command({
    name: 'api revoke',
    summary: 'Revokes the key of a service account. The next request with this key fails.',
    text: [ENVIRONMENT],
    options: CONNECTION,
    operands: id('The service account.'),
    examples: [{ title: 'a key that others may know', line: 'sluice api revoke ID' }],
    run: async ({ options, operands }, io) =>
      (await load()).withClient(options, io, client => client.serviceAccounts.revoke(operands[0]!)),
  }),
  command({
    name: 'api publish',
    summary: 'Publishes a pipeline: its latest revision, an earlier revision, or a file.',
    text: [PRINTS],
    options: {
      ...CONNECTION,
      config: { short: 'c', value: 'FILE', text: 'First saves this configuration as the latest revision.' },
      revision: { value: 'N', text: 'The revision to publish. An earlier revision is a rollback.' },
    },
    operands: { ...id('The pipeline, by its id or its title.'), mayMiss: true },
    examples: [
      { title: 'the draft', line: 'sluice api publish ID' },
      { title: 'by its title', line: 'sluice api publish web --config pipeline.yaml' },
      { title: 'back to an earlier revision', line: 'sluice api publish ID --revision 3' },
    ],
    async run({ options, operands }, io) {
      const { noteOnRun, pipelineId, withClient } = await load()
      const { config, revision } = options
      const wanted = revision === undefined ? undefined : wholeNumber(revision, 'revision', 'api publish')
      const { loadDocument } = await import('../../engine/config/yaml/plain-yaml.js')
      const document = config === undefined ? undefined : loadDocument(config)
      let note: string | undefined
      const code = await withClient(options, io, async client => {
        const pipeline = await pipelineId(client, operands[0])
        const changed = document && (await client.pipelines.update(pipeline, { config: document }))
        const revision = wanted ?? changed?.revision
        const published = await client.pipelines.publish(pipeline, revision === undefined ? {} : { revision })
        note = await noteOnRun(client, published)
        return published
      })
      if (note !== undefined) io.stderr.write(`sluice: ${note}\n`)
      return code
    },
  }),
  command({
    name: 'api set-secret',
    summary: 'Saves a secret of the account, or replaces its value. Pipelines use it as ${secret:NAME}.',
    text: [`The value is read from standard input or a file. The service encrypts it and never shows it. ${PRINTS}`],
    options: { ...CONNECTION, file: { value: 'FILE', text: 'File with the value.' } },
    operands: { name: 'NAME', min: 1, max: 1, text: 'The name of the secret.' },
    // This text omits the argument, because it may be the value of the secret.
    instead: (_more, line) => `it reads the value from standard input, or from a file: ${line} --file FILE`,
    examples: [
      { title: 'from a file', line: 'sluice api set-secret upstream --file upstream-key' },
      { title: 'from a password manager', line: 'pass show upstream | sluice api set-secret upstream' },
    ],
    async run({ options, operands }, io) {
      const { readInput, withClient } = await load()
      const value = await readInput(options.file === undefined ? '-' : `@${options.file}`, io)
      return withClient(options, io, client => client.secrets.set(operands[0]!, String(value)))
    },
  }),
  ...(['enable', 'disable'] as const).map(name =>
    command({
      name: `api ${name}`,
      summary: `${name === 'enable' ? 'Enables' : 'Disables'} the beta feature "throttle" for the account of the key.`,
      text: [`The key must be a personal key of a manager of the account. ${PRINTS}`],
      options: CONNECTION,
      operands: { name: 'FEATURE', min: 1, max: 1, takes: ['throttle'], text: 'The name of the feature: throttle.' },
      examples: [{ title: 'for pipelines with a throttle', line: `sluice api ${name} throttle` }],
      run: async ({ options, operands }, io) =>
        (await load()).withClient(options, io, client => client.accounts.setFeature(operands[0]!, name === 'enable')),
    }),
  ),
  command({
    name: 'api',
    summary: 'Calls the service, and prints its answer.',
    text: [`${ENVIRONMENT} If the service refuses the request, the exit code is 1, and the response is still printed.`],
    options: {
      ...CONNECTION,
      data: { short: 'd', value: 'JSON', text: 'The body of the request. @FILE reads a file, - reads standard input.' },
      type: { value: 'TYPE', text: 'Content type of the body. Default: application/json.' },
      include: { short: 'i', text: 'Prints status and headers as well.' },
    },
    operands: {
      name: 'METHOD PATH',
      min: 2,
      max: 2,
      takes: ['GET', 'POST', 'PUT', 'DELETE', 'HEAD'],
      text: 'The request, as in GET /v3/pipeline.',
    },
    instead: ([body = ''], line) =>
      `give the body with --data: ${line} --data ${shellWord(existsSync(body) ? `@${body}` : body)}`,
    examples: [
      { title: 'list the pipelines', line: 'sluice api GET /v3/pipeline' },
      {
        title: 'send an event',
        line: `sluice api POST /v3/ingest/ID --data '{"app":"a"}' --type application/x-ndjson`,
      },
    ],
    run: async ({ options, operands }, io) => (await load()).api(options, operands, io),
  }),
]
