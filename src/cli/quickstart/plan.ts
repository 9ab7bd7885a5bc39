import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { UsageError } from '../../daemon/process/command-line.js'
import { editYaml, literalText } from '../../engine/config/yaml/plain-yaml.js'
import { packageFolder } from '../../lib/version.js'
import { type FoundLog, literalGlob, type Machine } from '../init/machine.js'

/** The configuration of the quickstart is the example, plus a log of this machine and a receiver. */

const HEAD = '# sluice quickstart replaces this file at each start.'
const EXAMPLE = join(packageFolder, 'config/examples/quickstart.yaml')
/** A log to deliver. `isLong`: only its new lines are read. */
export type OwnLog = Pick<FoundLog, 'path' | 'isLong'>

/** The service that receives the events. */
export interface Receiver {
  /** The base address of the service. */
  readonly url: string
  readonly pipeline: string
  /** Undefined: the key is in SLUICE_ACCESS_KEY. */
  readonly keyFile?: string
  readonly caFile?: string | undefined
  /** Only for the quickstart's own service: the file with the received events, and the URL of its metrics. */
  readonly received?: string
  readonly metrics?: string
  /** Resolves when the own service has written all events that it received. */
  stop?(): Promise<void>
}

/** The log at the given path; otherwise the first file of `machine` that is proposed. */
export function chooseLog(asked: string | undefined, machine: Machine, folder: string): OwnLog | undefined {
  if (asked === undefined) {
    for (const log of machine.search()) if (log.id !== 'journal' && !log.doubt) return log
    return undefined
  }
  const path = resolve(folder, asked)
  const log = machine.find(literalGlob(path))
  if (log) return log
  throw new UsageError(`--log: ${path} is not a file that this user can read`, 'quickstart')
}

/** The example, with a log of this machine. Without the schema, whose path is relative to the example. */
export function exampleYaml(log: OwnLog | undefined): string {
  const changes = log
    ? {
        'sources.log.include': [literalText(literalGlob(log.path))],
        'sources.log.read_from': log.isLong ? 'end' : 'beginning',
      }
    : { 'sources.log': undefined, 'destinations.upstream.inputs': ['limit_apps'] }
  return editYaml(readFileSync(EXAMPLE, 'utf8').replace(/^.*\n/, ''), changes)
}

/** The configuration to run, with `dataDir` as its data_dir. `tokenFile`: the file with the page's token. */
export function planYaml(dataDir: string, log: OwnLog | undefined, receiver: Receiver, tokenFile: string): string {
  const { url, pipeline, keyFile, caFile } = receiver
  const example = exampleYaml(log)
  return editYaml(`${HEAD}${example.slice(example.indexOf('\ndata_dir:'))}`, {
    tests: undefined,
    data_dir: literalText(dataDir),
    'status_page.token_file': literalText(tokenFile),
    'destinations.upstream.type': 'http',
    'destinations.upstream.path': undefined,
    'destinations.upstream.encoding': undefined,
    'destinations.upstream.url': `${url}/v3/ingest/${pipeline}`,
    'destinations.upstream.auth': {
      type: 'token',
      ...(keyFile === undefined ? { key: '${SLUICE_ACCESS_KEY}' } : { key_file: literalText(keyFile) }),
    },
    ...(caFile !== undefined && { 'destinations.upstream.tls': { ca_file: literalText(caFile) } }),
  })
}
