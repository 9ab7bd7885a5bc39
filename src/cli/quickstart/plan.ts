import { accessSync, constants, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { basename, join, relative } from 'node:path'
import type { OwnService } from './service.js'

/** Plans the quickstart: a configuration that the user can continue with. */

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
const FROM_BEGINNING_BYTES = 32 * 1024 * 1024
/** Events per second of each app. */
export const LIMIT = 20
const FIRST_PORT = 9598
const PORTS = 100
export const FOLDER = '.sluice-quickstart'
export const APPS_LOG = 'apps.log'

export interface Plan {
  /** Absolute path of the quickstart's folder. */
  readonly folder: string
  readonly log: string
  /** Whether no common log was readable, so `log` is a file of the package. */
  readonly fallback: boolean
  readonly readFrom: 'beginning' | 'end'
  /** Whether events go to SLUICE_URL. */
  readonly http: boolean
  /** Otherwise, the service that runs beside the daemon; without one, events go to a file. */
  readonly service?: Pick<OwnService, 'url' | 'account' | 'ingest' | 'keyFile' | 'received'>
  readonly port: number
}

/** Plans to run with the first of `candidates` that is readable and not empty, or else with `fallback`. */
export function makePlan(
  candidates: readonly string[],
  fallback: string,
  env: NodeJS.ProcessEnv,
  folder: string,
  port: number,
): Plan {
  const log = candidates.find(path => readableSize(path) > 0) ?? fallback
  return {
    folder,
    log,
    fallback: log === fallback,
    readFrom: readableSize(log) <= FROM_BEGINNING_BYTES ? 'beginning' : 'end',
    http: Boolean(env.SLUICE_URL && env.SLUICE_ACCESS_KEY),
    port,
  }
}

/** The size of a readable regular file; 0 for anything else. */
function readableSize(path: string): number {
  try {
    accessSync(path, constants.R_OK)
    const stat = statSync(path)
    return stat.isFile() ? stat.size : 0
  } catch {
    return 0
  }
}

/** The configuration of `plan`, in the style of a user. */
export function planYaml(plan: Plan): string {
  return `# sluice quickstart replaces this file at each start. Copy it to continue with it, and change the copy.
data_dir: ${quote(join(plan.folder, 'state'))}
metrics: { listen: 127.0.0.1:${plan.port} }

sources:
  apps:                            # what the quickstart's made-up apps write
    type: file
    include: [${quote(literal(join(plan.folder, APPS_LOG)))}]
    decode: json
  log:                             # a log of this machine
    type: file
    include: [${quote(literal(plan.log))}]
    read_from: ${plan.readFrom}

processors:
  limit_apps:                      # no app can drown the others
    type: throttle
    inputs: [apps]
    limit: ${LIMIT}
    window: 1 Seconds
    key_field: .app
    on_backlog: pace               # what was missed is read only as fast as that

destinations:
${destinationYaml(plan)}`
}

function destinationYaml({ folder, http, service }: Plan): string {
  const upstream = (url: string, key: string, more = '') => `  upstream:
    type: http
    inputs: [limit_apps, log]
    url: ${url}
    auth: { type: token, ${key} }
${more}`
  if (http) return upstream('${SLUICE_URL}', "key: '${SLUICE_ACCESS_KEY}'")
  if (service) {
    const { ingest, keyFile, url } = service
    return upstream(ingest, `key_file: ${quote(keyFile)}`, `    validate: ${url}/v3/pipeline\n`)
  }
  return `  upstream:
    type: file
    inputs: [limit_apps, log]
    path: ${quote(join(folder, 'passed.log'))}
`
}

/** Quotes `text` as a YAML string: inside single quotes only these need escaping; variables are escaped too. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "''").replaceAll('${', () => '$${')}'`
}

/** The glob pattern that matches only `path`. */
function literal(path: string): string {
  return path.replace(/[\\*?[\]{}()!+@|]/g, '\\$&')
}

/** The first free port from `first` on. */
export async function freePort(first = FIRST_PORT): Promise<number> {
  for (let port = first; port < first + PORTS; port++) if (await isFree(port)) return port
  throw new Error(`no port between ${first} and ${first + PORTS - 1} is free`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** A short description of the receiver. */
export function receiverOf({ http, service, folder }: Plan, env: NodeJS.ProcessEnv): string {
  if (http) return hostOf(env.SLUICE_URL)
  return service ? `the service at ${service.url}` : relative(process.cwd(), join(folder, 'passed.log'))
}

/** The host of a URL, without parts that may be secret. */
function hostOf(url = ''): string {
  try {
    return new URL(url).origin
  } catch {
    return 'SLUICE_URL'
  }
}

/** The text shown before the run begins; its lines fit 80 columns unless paths are too long. */
export function announce(plan: Plan, env: NodeJS.ProcessEnv): string {
  const here = (path: string) => relative(process.cwd(), path)
  const { service, log, folder } = plan
  const logName = plan.fallback ? `${basename(log)} of this package: no usual log is readable` : log
  const rows: [string, string][] = [
    ['reads', `${here(join(folder, APPS_LOG))}: made-up apps, one of which goes wild`],
    ['', `${logName}${plan.readFrom === 'end' ? ' (new lines only)' : ''}`],
    ['limits', `each app to ${LIMIT} events per second; more is held back and counted`],
    ['sends', `what passes to ${receiverOf(plan, env)}`],
  ]
  if (service) {
    rows.push(['service', `its keys are in ${here(service.keyFile)}*; what it received`])
    rows.push(['', `is in ${here(service.received)}`])
  }
  rows.push(
    ['metrics', `http://127.0.0.1:${plan.port}/metrics${plan.port === FIRST_PORT ? '' : ` (${FIRST_PORT} is taken)`}`],
    ['look', `sluice status --config ${here(join(folder, 'sluice.yaml'))}`],
    ['end', 'Ctrl-C'],
  )
  return ['sluice quickstart', ...rows.map(([name, text]) => `  ${name.padEnd(8)} ${text}`), '']
    .map(line => `${line}\n`)
    .join('')
}
