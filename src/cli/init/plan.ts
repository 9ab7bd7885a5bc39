import { UsageError } from '../../daemon/process/command-line.js'
import { commentedYaml, literalText } from '../../engine/config/yaml/plain-yaml.js'
import type { Log } from './machine.js'

/** The configuration that `init` writes. */

export const LIMIT_ID = 'limit_app'
const APP = '${.app:-none}'
const FORMS =
  'loki=URL, elasticsearch=URL, otlp=URL, http=URL, kafka=HOST:PORT, file=PATH, or none, which only counts the events'

/** By type: the options of a destination at an address. */
const TYPES: Readonly<Record<string, (address: string) => Readonly<Record<string, unknown>>>> = {
  loki: url => ({ url, labels: { job: 'sluice', host: '${.host}', app: APP }, encoding: 'json' }),
  elasticsearch: url => ({ url, index: 'sluice-logs' }),
  otlp: url => ({ url }),
  http: url => ({ url, encoding: 'json' }),
  kafka: brokers => ({ brokers: brokers.split(','), topic: 'sluice-logs', key_field: '.app', encoding: 'json' }),
  file: path => ({ path, encoding: 'json' }),
}

/** The destination that TYPE=ADDRESS describes. Throws UsageError. */
export function destinationOf(text: string): Readonly<Record<string, unknown>> {
  if (text === 'none') return { type: 'blackhole' }
  const [, type = '', address = ''] = /^(\w+)=(\S+)$/.exec(text) ?? []
  const options = TYPES[type]
  if (!options) throw new UsageError(`send: ${JSON.stringify(text)} must be one of ${FORMS}`, 'init')
  return { type, ...options(address) }
}

export interface Plan {
  readonly logs: readonly Log[]
  readonly destination: Readonly<Record<string, unknown>>
  readonly keyFile: string | undefined
  /** Events per second of each app. */
  readonly limit: number
  /** Undefined: the default. */
  readonly dataDir: string | undefined
}

export function configText({ logs, destination, keyFile, limit, dataDir }: Plan): string {
  const { type } = destination
  const nameId = (id: string) => `app_of_${id}`
  const named = logs.flatMap(({ id, named }) => (named ? [{ id, named }] : []))
  const areTimed = logs.every(({ options }) => options.type === 'journald' || options.decode !== undefined)
  const word = /\/v3\/ingest\//.test(String(destination.url))
    ? 'token'
    : type === 'elasticsearch'
      ? 'api_key'
      : 'bearer'
  const config = {
    ...(dataDir !== undefined && { data_dir: dataDir }),
    metrics: { listen: '127.0.0.1:9598' },
    sources: Object.fromEntries(logs.map(({ id, options }) => [id, options])),
    processors: {
      ...Object.fromEntries(
        named.map(({ id, named: { type, ...rest } }) => [nameId(id), { type, inputs: [id], ...rest }]),
      ),
      [LIMIT_ID]: {
        ...{ type: 'throttle', inputs: logs.map(({ id, named }) => (named ? nameId(id) : id)) },
        ...{ limit, window: '1 Seconds', key_field: '.app' },
        // Lines of text have no time at which they could count.
        ...(areTimed ? { time_field: 'auto' } : { on_backlog: 'pace' }),
      },
    },
    destinations: {
      upstream: {
        ...{ type, inputs: [LIMIT_ID], ...destination },
        ...(keyFile !== undefined && { auth: { type: word, key_file: literalText(keyFile) } }),
      },
    },
  }
  const backlog = areTimed
    ? 'Older events count at their own time.'
    : 'Older lines are read more slowly, so none is discarded.'
  return commentedYaml(config, {
    '': 'Written by sluice init. Check a change with: sluice validate FILE. All options: config/reference.md.',
    data_dir: 'Positions in the logs, buffers, rejected events.',
    ...Object.fromEntries(logs.map(({ id, about }) => [`sources.${id}`, about])),
    ...(named[0] && { [`processors.${nameId(named[0].id)}`]: 'The limit is by .app, which these events lack.' }),
    [`processors.${LIMIT_ID}`]: `Passes ${limit} events a second of each app; discards and counts the others. ${backlog}`,
    'destinations.upstream': 'Events wait while it does not answer; sluice status shows why.',
  })
}
