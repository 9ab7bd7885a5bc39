import { accessSync, constants, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join, relative } from 'node:path'
import { errorText } from '../core/errors.js'
import { packageFolder } from '../lib/version.js'
import type { Io } from './command-line.js'
import type { OwnService } from './quickstart-service.js'

/** Runs the main job on a log of this machine, with a configuration that the user can go on from. */

/** Logs that machines have, the liveliest first. */
const USUAL_LOGS = [
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
/** A larger log is followed from its end: nobody wants to wait for it here. */
const FROM_BEGINNING_BYTES = 32 * 1024 * 1024
const LIMIT = 20
const FIRST_PORT = 9598
const SERVICE_PORT = 8080
const PORTS = 100
const FOLDER = '.sluice-quickstart'

export interface Plan {
  readonly log: string
  /** None of the usual logs was readable: `log` stands in for them. */
  readonly fallback: boolean
  readonly readFrom: 'beginning' | 'end'
  /** Events also go to SLUICE_URL. */
  readonly http: boolean
  /** Or to a service that runs beside it. */
  readonly service?: Pick<OwnService, 'url' | 'account' | 'ingest' | 'keyFile' | 'received'>
  readonly port: number
}

/** What to run: the first of `candidates` that can be read and has something in it, else `fallback`. */
export function makePlan(candidates: readonly string[], fallback: string, env: NodeJS.ProcessEnv, port: number): Plan {
  const log = candidates.find(path => readableSize(path) > 0) ?? fallback
  return {
    log,
    fallback: log === fallback,
    readFrom: readableSize(log) <= FROM_BEGINNING_BYTES ? 'beginning' : 'end',
    http: Boolean(env.SLUICE_URL && env.SLUICE_ACCESS_KEY),
    port,
  }
}

/** The size of a regular file that may be read; 0 for any other. */
function readableSize(path: string): number {
  try {
    accessSync(path, constants.R_OK)
    const stat = statSync(path)
    return stat.isFile() ? stat.size : 0
  } catch {
    return 0
  }
}

/** The configuration of `plan`, as its user would write it. */
export function planYaml(plan: Plan, dataDir: string): string {
  const upstream = (url: string, auth: string, more = '') => `
  upstream:
    type: http
    inputs: [limit_log]
    url: ${url}
    auth: { type: token, ${auth} }
${more}`
  let http = ''
  if (plan.http) http = upstream('${SLUICE_URL}', "key: '${SLUICE_ACCESS_KEY}'")
  else if (plan.service) {
    const { ingest, keyFile, url } = plan.service
    http = upstream(ingest, `key_file: ${quote(keyFile)}`, `    validate: ${url}/v3/pipeline\n`)
  }
  return `# Written anew by each sluice quickstart. To go on from it, copy it and change the copy.
data_dir: ${quote(dataDir)}
metrics: { listen: 127.0.0.1:${plan.port} }

sources:
  log:
    type: file
    include: [${quote(literal(plan.log))}]
    read_from: ${plan.readFrom}

processors:
  limit_log:
    type: throttle
    inputs: [log]
    limit: ${LIMIT}
    window: 1 Seconds

destinations:
  terminal:
    type: stdout
    inputs: [limit_log]
    encoding: raw
${http}`
}

/** A YAML string that means `text`: single quotes leave all but themselves alone, and no variable is replaced. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "''").replaceAll('${', () => '$${')}'`
}

/** The glob pattern that matches `path` and nothing else. */
function literal(path: string): string {
  return path.replace(/[\\*?[\]{}()!+@|]/g, '\\$&')
}

/** The first port from `first` on that nobody listens on. */
export async function freePort(first: number): Promise<number> {
  for (let port = first; port < first + PORTS; port++) if (await isFree(port)) return port
  throw new Error(`no free port between ${first} and ${first + PORTS - 1} for the metrics`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** What a person is told before it begins. `resumed`: an earlier run left its positions. */
export function announce(plan: Plan, yaml: string, env: NodeJS.ProcessEnv, resumed: boolean): string {
  const begin = plan.readFrom === 'end' ? 'new lines only, since it is large' : 'from its beginning'
  const reads = resumed ? `from where the last run stopped; delete ${FOLDER} to begin anew` : begin
  const why = plan.fallback ? ', since none of the usual logs is readable' : ''
  const { service } = plan
  const to = plan.http ? hostOf(env.SLUICE_URL) : service && 'the service'
  const about = service
    ? [
        `  service  ${service.url}/v3, account ${service.account}; keys in ${relative(process.cwd(), service.keyFile)}*`,
        `           its pipeline limits again, and writes to ${relative(process.cwd(), service.received)}`,
        `           with SLUICE_URL and SLUICE_ACCESS_KEY set, events go there instead`,
      ]
    : []
  const taken = plan.port === FIRST_PORT ? '' : ` (port ${FIRST_PORT} is taken)`
  return [
    `sluice quickstart`,
    `  reads    ${plan.log}${why} (${reads})`,
    `  limits   to ${LIMIT} events per second; what is above is discarded and counted`,
    `  sends    to this terminal${to ? `, and ${to}` : ''}`,
    ...about,
    `  metrics  http://127.0.0.1:${plan.port}/metrics${taken}`,
    `  runs     ${yaml}; go on with a copy of it: sluice run --config FILE`,
    `  Ctrl-C ends it.`,
    '',
    '',
  ].join('\n')
}

/** An address without what may be secret in it. */
function hostOf(url = ''): string {
  try {
    return new URL(url).origin
  } catch {
    return 'SLUICE_URL'
  }
}

/** Resolves with the exit code when the user ends it. */
export async function quickstart(io: Io): Promise<number> {
  const folder = join(process.cwd(), FOLDER)
  const state = join(folder, 'state')
  const resumed = existsSync(state)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const found = makePlan(USUAL_LOGS, join(packageFolder, 'README.md'), io.env, await freePort(FIRST_PORT))
  const { startOwnService } = await import('./quickstart-service.js')
  const service = found.http
    ? undefined
    : await startOwnService(folder, await freePort(SERVICE_PORT), io.env).catch(error => {
        io.stderr.write(`sluice: without a service: ${errorText(error)}\n`)
        return undefined
      })
  try {
    const plan = service ? { ...found, service } : found
    const file = join(folder, 'sluice.yaml')
    writeFileSync(file, planYaml(plan, state))
    io.stderr.write(announce(plan, relative(process.cwd(), file), io.env, resumed))
    const { run } = await import('./run.js')
    return await run({ configPath: file }, { ...io, stderr: plainLog(io.stderr) })
  } finally {
    await service?.stop()
  }
}

/** Stands in for stderr, where the daemon logs JSON: each line as a person reads it. */
export function plainLog(stderr: Pick<NodeJS.WritableStream, 'write'>): NodeJS.WriteStream {
  const write = (line: string) => stderr.write(`${plain(line)}\n`)
  return { write } as NodeJS.WriteStream
}

function plain(line: string): string {
  try {
    const { level: _level, time: _time, pid: _pid, msg, ...fields } = JSON.parse(line) as Record<string, unknown>
    const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
    return `sluice: ${[msg, ...Object.entries(fields).map(([name, value]) => `${name}=${text(value)}`)].join(' ')}`
  } catch {
    return line.trimEnd()
  }
}
