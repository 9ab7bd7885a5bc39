import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { UsageError } from '../../daemon/process/command-line.js'
import { editYaml, literalText } from '../../engine/config/yaml/plain-yaml.js'
import { packageFolder } from '../../lib/version.js'

/** The configuration of the quickstart is the example, plus a log of this machine and a receiver. */

const HEAD = '# sluice quickstart replaces this file at each start.'
export const EXAMPLE = join(packageFolder, 'config/examples/quickstart.yaml')
/** Common log files, busiest first. */
export const USUAL_LOGS = [
  '/var/log/syslog',
  '/var/log/messages',
  '/var/log/system.log',
  '/var/log/auth.log',
  '/var/log/secure',
  '/var/log/kern.log',
  '/var/log/daemon.log',
  '/var/log/nginx/access.log',
  '/var/log/dnf.log',
  '/var/log/dpkg.log',
  '/var/log/apt/history.log',
  '/var/log/pacman.log',
  '/var/log/install.log',
]
/** A larger log is read from its end, which avoids a long wait. */
export const FROM_BEGINNING_BYTES = 32 * 1024 * 1024

export interface Log {
  readonly path: string
  readonly readFrom: 'beginning' | 'end'
}

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
}

/** The log at the given path; otherwise the first of `candidates` that is readable and not empty. */
export function chooseLog(asked: string | undefined, candidates: readonly string[], folder: string): Log | undefined {
  const path = asked === undefined ? candidates.find(path => readableSize(path) > 0) : resolve(folder, asked)
  if (path === undefined) return undefined
  const size = readableSize(path)
  if (size < 0) throw new UsageError(`--log: ${path} is not a file that this user can read`, 'quickstart')
  return { path, readFrom: size <= FROM_BEGINNING_BYTES ? 'beginning' : 'end' }
}

/** The size of a readable regular file; -1 for anything else. */
function readableSize(path: string): number {
  try {
    accessSync(path, constants.R_OK)
    const stat = statSync(path)
    return stat.isFile() ? stat.size : -1
  } catch {
    return -1
  }
}

/** The configuration to run, with `dataDir` as its data_dir. `tokenFile`: the file with the page's token. */
export function planYaml(dataDir: string, log: Log | undefined, receiver: Receiver, tokenFile: string): string {
  const { url, pipeline, keyFile, caFile } = receiver
  const example = readFileSync(EXAMPLE, 'utf8')
  return editYaml(`${HEAD}${example.slice(example.indexOf('\ndata_dir:'))}`, {
    tests: undefined,
    data_dir: literalText(dataDir),
    'status_page.token_file': literalText(tokenFile),
    ...(log
      ? { 'sources.log.include': [literalText(literalGlob(log.path))], 'sources.log.read_from': log.readFrom }
      : { 'sources.log': undefined, 'destinations.upstream.inputs': ['limit_apps'] }),
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

/** The glob pattern that matches only `path`. */
export function literalGlob(path: string): string {
  return path.replace(/[\\*?[\]{}()!+@|]/g, '\\$&')
}
