import { accessSync, constants, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { matchesOf } from '../../components/file/discovery/include-warnings.js'
import { errorCode } from '../../core/errors.js'
import { systemClock } from '../../lib/time.js'
import { formatSize } from '../../lib/units.js'
import { FROM_BEGINNING_BYTES, literalGlob } from '../quickstart/plan.js'
import { formatOf } from './format.js'
import { endOf, endOfJournal } from './sample.js'

/** Inspects a machine by its files, including /proc. Changes nothing, and connects to nothing. */

type Options = Readonly<Record<string, unknown>>

/** A log that Sluice can read. */
export interface Log {
  /** The id of the source in the configuration. */
  readonly id: string
  readonly about: string
  /** The options of the source. */
  readonly options: Options
  /** The options of a processor that sets `.app`. Undefined: the events have it. */
  readonly named: Options | undefined
  /** The newest file. */
  readonly path: string
  /** Why it is not proposed. */
  readonly doubt?: string
  /** Returns the newest lines. */
  sample(): Promise<string> | string
}

export interface Machine {
  readonly logs: readonly Log[]
  /** Receivers that listen here, as TYPE=ADDRESS. */
  readonly receivers: readonly string[]
  /** What Sluice cannot do yet, and what to do today. */
  readonly remarks: readonly string[]
}

interface Service {
  readonly id: string
  readonly app: string
  readonly include: readonly string[]
  readonly codec?: string
  readonly options?: Options
  readonly named?: Options
}

const CONTAINERS = '/var/lib/docker/containers'
const PGSQL = ['/var/log/postgresql/*.log', '/var/lib/pgsql/data/log/*.log', '/var/lib/pgsql/*/data/log/*.log']
/** A statement continues on lines that begin with a tab. */
const STATEMENTS = { multiline: { start: '^\\d{4}-\\d{2}-\\d{2} ' } }
/** The short id of a container, as in docker ps. */
const CONTAINER_ID = { field: '.file', codec: 'regex', pattern: '(?<app>[0-9a-f]{12})[0-9a-f]*-json\\.log$' }

const SERVICES: readonly Service[] = [
  { id: 'nginx', app: 'nginx', include: ['/var/log/nginx/*access*.log'], codec: 'nginx' },
  { id: 'nginx_errors', app: 'nginx', include: ['/var/log/nginx/*error*.log'] },
  {
    ...{ id: 'apache', app: 'apache', codec: 'apache' },
    include: ['/var/log/apache2/*access*.log', '/var/log/httpd/*access_log'],
  },
  { id: 'apache_errors', app: 'apache', include: ['/var/log/apache2/*error*.log', '/var/log/httpd/*error_log'] },
  { id: 'postgresql', app: 'postgresql', include: PGSQL, options: STATEMENTS },
  {
    ...{ id: 'docker', app: 'docker', include: [`${CONTAINERS}/*/*-json.log`], codec: 'docker_json' },
    named: { type: 'parse', ...CONTAINER_ID },
  },
]

/** Files that rsyslog writes, with entries that the journal has, too. */
const OF_JOURNAL = /^\/var\/log\/(syslog|messages|secure|maillog|cron|(auth|daemon|debug|kern|mail|user|cron)\.log)$/
const ROTATED = /\.(\d+|old|gz|xz|bz2|zst)$|-\d{8}$/
const DAY_MS = 86_400_000
const MOST_GROWING = 8
const SHIPPERS = /^(promtail|alloy|grafana-agent|fluent-bit|fluentd|td-agent|filebeat|vector|otelcol.*|telegraf)$/
const RECEIVERS: readonly (readonly [port: number, receiver: string])[] = [
  [3100, 'loki=http://127.0.0.1:3100'],
  [9200, 'elasticsearch=http://127.0.0.1:9200'],
  [4318, 'otlp=http://127.0.0.1:4318'],
  [9092, 'kafka=127.0.0.1:9092'],
]
const OTLP_GRPC = 4317
const OTLP_HTTP = 4318

/** `root`: the folder that is / on that machine. `path`: its PATH. */
export function inspectMachine(root: string, path: string): Machine {
  const found = new Found(root)
  const { logs, isThere } = found
  const journal = ['/var/log/journal', '/run/log/journal'].find(place => isThere(`${place}/*/*.journal`))
  if (journal !== undefined && path.split(':').some(bin => existsSync(join(root, bin, 'journalctl'))))
    logs.push({
      ...{ id: 'journal', about: 'the systemd journal, since the last boot', named: undefined },
      ...{ path: journal, options: { type: 'journald', read_from: 'boot' } },
      sample: () => endOfJournal(root === '/' ? [] : ['-D', join(root, journal)]),
    })
  for (const service of SERVICES) found.add(service)
  found.addGrowing()

  const ports = portsOf(join(root, 'proc/net'))
  const shippers = processesOf(join(root, 'proc')).filter(name => SHIPPERS.test(name))
  const remarks = [
    ...[...new Set(shippers)].map(
      name => `${name} runs: Sluice cannot take over its positions; compare what arrives, then stop ${name}`,
    ),
    ...(ports.has(OTLP_GRPC) && !ports.has(OTLP_HTTP)
      ? [`OTLP over gRPC (port ${OTLP_GRPC}): let the receiver listen for HTTP, usually on port ${OTLP_HTTP}`]
      : []),
    ...(logs.some(({ id }) => id === 'docker')
      ? ['names and labels of Docker containers: .app is the id that docker ps shows']
      : isThere(`${CONTAINERS}/*`)
        ? ['Docker log drivers without files: set "log-driver": "journald" in /etc/docker/daemon.json']
        : []),
    ...(isThere('/var/log/pods/*')
      ? ['names and labels of pods: read /var/log/pods/*/*/*.log with decode: cri; the file names have the pod']
      : []),
    ...found.refusals,
  ]
  return { logs, receivers: RECEIVERS.flatMap(([port, receiver]) => (ports.has(port) ? [receiver] : [])), remarks }
}

/** The log in the files of a pattern, such as `/srv/*.log`. Undefined if this user can read no such file. */
export function logAt(pattern: string, root: string): Log | undefined {
  const found = new Found(root)
  found.add({ ...nameOf(pattern), include: [pattern] })
  return found.logs[0]
}

interface File {
  readonly path: string
  readonly size: number
  readonly changed: number
}

/** The logs found so far. Paths are those of the machine, without its root folder. */
class Found {
  readonly logs: Log[] = []
  readonly #root: string
  readonly #seen = new Set<string>()
  readonly #refused = new Set<string>()

  constructor(root: string) {
    this.#root = root === '/' ? '' : root
  }

  readonly isThere = (pattern: string): boolean => !this.#matches(pattern).next().done

  #matches(pattern: string) {
    return matchesOf([literalGlob(this.#root) + pattern])
  }

  add({ id, app, include, codec, options, named }: Service): void {
    const matching = include
      .map(pattern => ({ pattern, files: this.#filesOf(pattern) }))
      .filter(one => one.files.length)
    const files = matching.flatMap(one => one.files)
    if (files.length === 0) return
    for (const { path } of files) this.#seen.add(path)
    const patterns = matching.map(({ pattern }) => pattern)
    const bytes = files.reduce((sum, { size }) => sum + size, 0)
    const newest = files.reduce((a, b) => (b.changed > a.changed ? b : a)).path
    const sample = () => endOf(this.#root + newest)
    const format = formatOf(sample(), codec)
    const isLong = bytes > FROM_BEGINNING_BYTES
    const isTwice = this.logs[0]?.id === 'journal' && OF_JOURNAL.test(newest)
    const more = files.length > 1 ? ` and ${files.length - 1} more` : ''
    const set = { '.app': format.app === undefined ? app : `\${.${format.app}}` }
    this.logs.push({
      id: this.logs.some(log => log.id === id) ? `${id}_${this.logs.length}` : id,
      about: `${format.decode}, ${formatSize(bytes)}${isLong ? ', new lines only' : ''}, ${newest}${more}`,
      path: newest,
      options: {
        ...{ type: 'file', include: patterns },
        ...(format.decode === 'text' ? options : { decode: format.decode }),
        ...(isLong && { read_from: 'end' }),
      },
      named: named ?? (format.app === 'app' ? undefined : { type: 'edit', steps: [{ set }] }),
      ...(isTwice && { doubt: 'in the journal, too' }),
      sample,
    })
  }

  /** Adds text files in /var/log that changed within a day. */
  addGrowing(): void {
    // Each folder has its own pattern, because the search for a pattern ends at a folder that this user may not list.
    const folders = [...this.#matches('/var/log/*')].filter(({ kind }) => kind === 'folder')
    const inFolders = folders.map(({ path }) => `${literalGlob(path.slice(this.#root.length))}/*`)
    const since = systemClock.wall() - DAY_MS
    const growing = ['/var/log/*', ...inFolders]
      .flatMap(pattern => this.#filesOf(pattern))
      .filter(({ path, size, changed }) => size > 0 && changed > since && !ROTATED.test(path) && !this.#seen.has(path))
      .filter(({ path }) => !endOf(this.#root + path).includes('\0'))
    for (const { path } of growing.sort((a, b) => b.size - a.size).slice(0, MOST_GROWING))
      this.add({ ...nameOf(path), include: [literalGlob(path)] })
  }

  #filesOf(pattern: string): File[] {
    return [...this.#matches(pattern)].flatMap(({ kind, path, error }) => {
      const own = path.slice(this.#root.length)
      try {
        if (error !== undefined) throw error
        if (kind !== 'file') return []
        accessSync(path, constants.R_OK)
        const { size, mtimeMs } = statSync(path)
        return [{ path: own, size, changed: mtimeMs }]
      } catch (error) {
        if (errorCode(error) === 'EACCES') this.#refused.add(own)
        return []
      }
    })
  }

  get refusals(): string[] {
    const [first, ...more] = this.#refused
    const all = more.length > 0 ? `${first} and ${more.length} more` : first
    return first === undefined ? [] : [`${all}: this user may not read this; use sudo, or join the group adm`]
  }
}

/** The id of a source and its app, by the name of the file and, below /var/log, of its folder. */
function nameOf(path: string): Pick<Service, 'id' | 'app'> {
  const file = basename(path).replace(/\.\w+$|[*?[\]{}\\]+/g, '')
  const folder = basename(dirname(path))
  const isNamed = file !== '' && (!/^\/var\/log\/./.test(dirname(path)) || file.startsWith(folder))
  const app = isNamed ? file : [folder, file].filter(Boolean).join('_')
  return {
    app,
    id:
      app
        .toLowerCase()
        .replace(/\W+/g, '_')
        .replace(/^[^a-z]+|_$/g, '') || 'log',
  }
}

/** The ports on which something listens for TCP. */
function portsOf(folder: string): Set<number> {
  const lines = ['tcp', 'tcp6'].flatMap(name => textOf(join(folder, name)).split('\n'))
  return new Set(lines.map(line => Number.parseInt(/^ *\d+: \w+:(\w{4}) \S+ 0A /.exec(line)?.[1] ?? '', 16)))
}

function processesOf(folder: string): string[] {
  if (!existsSync(folder)) return []
  const ids = readdirSync(folder).filter(name => /^\d+$/.test(name))
  return ids.map(id => textOf(join(folder, id, 'comm')).trim())
}

/** The text of a file; empty if it cannot be read. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
