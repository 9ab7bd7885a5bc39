import { UsageError } from '../../daemon/process/command-line.js'
import { literalText, onOneLine } from '../../engine/config/yaml/plain-yaml.js'
import { documentPath } from '../../lib/version.js'
import { type FoundLog, LIMIT_ID, UPSTREAM_ID } from './machine.js'

/** The configuration that `init` writes. */

const FORMS =
  'loki=URL, elasticsearch=URL, otlp=URL, http=URL, kafka=HOST:PORT, file=PATH, or none, which only counts the events'

type Options = Readonly<Record<string, unknown>>

/** By type: the options of a destination at an address. */
const TYPES: Readonly<Record<string, (address: string) => Options>> = {
  loki: url => ({ url, labels: { job: 'sluice', host: '${.host}', app: '${.app:-none}' }, encoding: 'json' }),
  elasticsearch: url => ({ url, index: 'sluice-logs' }),
  otlp: url => ({ url }),
  http: url => ({ url, encoding: 'json' }),
  kafka: brokers => ({ brokers: brokers.split(','), topic: 'sluice-logs', key_field: '.app', encoding: 'json' }),
  file: path => ({ path, encoding: 'json' }),
}

/** The destination that TYPE=ADDRESS describes. Throws UsageError. */
export function destinationOf(text: string): Options {
  if (text === 'none') return { type: 'blackhole' }
  const [, type = '', address = ''] = /^(\w+)=(\S+)$/.exec(text) ?? []
  if (!Object.hasOwn(TYPES, type)) throw new UsageError(`send: ${JSON.stringify(text)} must be one of ${FORMS}`, 'init')
  return { type, ...TYPES[type]!(address) }
}

export interface ConfigPlan {
  readonly logs: readonly FoundLog[]
  readonly destination: Options
  /** Empty: no key is needed. */
  readonly keyFile: string
  /** Events per second of each app. */
  readonly limit: number
  /** Undefined: the default. */
  readonly dataDir: string | undefined
  /** Logs that a removed source has read. */
  readonly repeats?: readonly { readonly id: string; readonly removed: string }[]
}

export function configText({ logs, destination, keyFile, limit, dataDir, repeats }: ConfigPlan): string {
  const { type, url } = destination
  const inputs = logs.map(({ id, named }) => (named ? `app_of_${id}` : id))
  const [older, backlog] = logs.every(({ isTimed }) => isTimed)
    ? [{ time_field: 'auto' }, 'Older events count at their own time.']
    : [{ on_backlog: 'pace' }, 'Older lines are read more slowly, so none is discarded.']
  const ofType = type === 'elasticsearch' ? 'api_key' : 'bearer'
  const auth = { type: /\/v3\/ingest\//.test(String(url)) ? 'token' : ofType, key_file: literalText(keyFile) }
  const sources = logs.map(({ id, about, options }) => {
    const from = repeats?.find(repeat => repeat.id === id)?.removed
    return component(id, about, from === undefined ? options : { ...options, renamed_from: from })
  })
  const processors = logs.map(({ id, named }) =>
    named ? component(`app_of_${id}`, 'Sets .app, which is the key of the limit.', { ...named, inputs: [id] }) : '',
  )
  const about = `Passes ${limit} events a second of each app; discards and counts the others. ${backlog}`
  const throttle = { type: 'throttle', inputs, limit, window: '1 Seconds', key_field: '.app', ...older }
  const upstream = { type, inputs: [LIMIT_ID], ...destination, ...(keyFile !== '' && { auth }) }
  return `# Written by sluice init. Check a change with: sluice validate FILE. All options: ${documentPath('config/reference.md')}.
${dataDir === undefined ? '' : `\n# Positions in the logs, buffers, rejected events.\ndata_dir: ${dataDir}\n`}
metrics: { listen: 127.0.0.1:9598 }

sources:
${sources.join('')}
processors:
${processors.join('')}${component(LIMIT_ID, about, throttle)}
destinations:
${component(UPSTREAM_ID, 'Events wait while it does not answer; sluice status shows why.', upstream)}`
}

function component(id: string, comment: string, options: Options): string {
  const lines = Object.entries(options).map(([name, value]) => `    ${name}: ${onOneLine(value)}`)
  return `  # ${comment}\n  ${id}:\n${lines.join('')}`
}
