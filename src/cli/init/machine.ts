import { accessSync, constants, existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { matchesOf } from '../../components/file/discovery/include-warnings.js'
import { errorCode } from '../../core/errors.js'
import { machineText } from '../../lib/files/machine-text.js'
import { printable } from '../../lib/printable.js'
import { systemClock } from '../../lib/time.js'
import { counted, formatSize } from '../../lib/units.js'
import { logFormat, newestEntries, newestLines } from './sample.js'

type Options = Readonly<Record<string, unknown>>

/** Ids of components of the written configuration. No source has one of them. */
export const LIMIT_ID = 'limit_app'
export const UPSTREAM_ID = 'upstream'

/** A log that Sluice can read. */
export interface FoundLog {
  /** The id of the source in the configuration. */
  readonly id: string
  readonly about: string
  /** The options of the source. */
  readonly options: Options
  /** The options of a processor that sets `.app`. Undefined: the events have it. */
  readonly named?: Options | undefined
  readonly isTimed: boolean
  /** Only new lines are read. */
  readonly isLong: boolean
  /** The newest file. */
  readonly path: string
  /** Why it is not proposed. */
  readonly doubt?: string | false
  /** Returns the newest lines. */
  sample(): Promise<string> | string
}

/** The expected codec and the patterns of a log. `more`: options of its source if it is text, and how `.app` is set. */
type Service = readonly [codec: string, include: readonly string[], more?: { text?: Options; named?: Options }]

const CONTAINERS = '/var/lib/docker/containers'
const PGSQL = ['/var/log/postgresql/*.log', '/var/lib/pgsql/data/log/*.log', '/var/lib/pgsql/*/data/log/*.log']
/** A statement continues on lines that begin with a tab. */
const STATEMENTS = { multiline: { continue: '^\\t' } }
/** The short id of a container, as in docker ps. */
const CONTAINER_ID = { type: 'parse', field: '.file', codec: 'regex', pattern: '(?<app>[0-9a-f]{12})\\w*-json\\.log$' }
/** By the id of the source, which begins with the app. */
const SERVICES: Readonly<Record<string, Service>> = {
  nginx: ['nginx', ['/var/log/nginx/*access*.log']],
  nginx_errors: ['nginx', ['/var/log/nginx/*error*.log']],
  apache: ['apache', ['/var/log/apache2/*access*.log', '/var/log/httpd/*access_log']],
  apache_errors: ['apache', ['/var/log/apache2/*error*.log', '/var/log/httpd/*error_log']],
  postgresql: ['text', PGSQL, { text: STATEMENTS }],
  docker: ['docker_json', [`${CONTAINERS}/*/*-json.log`], { named: CONTAINER_ID }],
}

/** Files that rsyslog writes, with entries that the journal has, too. */
const OF_JOURNAL = /^\/var\/log\/(syslog|messages|secure|maillog|cron|(auth|daemon|debug|kern|mail|user|cron)\.log)$/
/** A larger log is read from its end, which avoids a long wait. */
const FROM_BEGINNING_BYTES = 32 * 1024 * 1024
const ROTATED = /\.(\d+|old|gz|xz|bz2|zst)$|-\d{8}$/
const DAY_MS = 86_400_000
const MOST_GROWING = 8
const SHIPPERS =
  /^(promtail|alloy|grafana-agent|fluent-bit|fluentd|td-agent|filebeat|elastic-agent|vector|otelcol.*|telegraf)$/
const RECEIVERS = {
  3100: 'loki=http://127.0.0.1:3100',
  9200: 'elasticsearch=http://127.0.0.1:9200',
  4318: 'otlp=http://127.0.0.1:4318',
  9092: 'kafka=127.0.0.1:9092',
}

/** What Sluice cannot do yet, and what to do today. */
const NO_POSITIONS = 'Sluice cannot take over its positions; compare what arrives'
const NO_GRPC = 'OTLP over gRPC (port 4317): let the receiver listen for HTTP, usually on port 4318'
const NO_DOCKER_NAMES = 'names and labels of Docker containers: .app is the id that docker ps shows'
const NO_DOCKER_FILES = 'Docker log drivers without files: set "log-driver": "journald" in /etc/docker/daemon.json'
const NO_PODS = 'names and labels of pods: read /var/log/pods/*/*/*.log with decode: cri; the file names have the pod'

/** Inspects a machine by its files, including /proc. Changes nothing, and connects to nothing. */
export class Machine {
  /** The logs found so far. Their paths are those of the machine, without its root folder. */
  readonly logs: FoundLog[] = []
  readonly #root: string
  readonly #seen = new Set<string>()
  readonly #refused = new Set<string>()
  /** How many growing files the search did not add. */
  #left = 0
  #listening: readonly number[] | undefined

  /** `root`: the folder that is / on that machine. */
  constructor(root = '/') {
    this.#root = existsSync(root) ? realpathSync(root).replace(/\/$/, '') : root
  }

  /** Finds logs, one at a time, and adds them to `logs`. `path`: the PATH of the machine. */
  *search(path = ''): Iterable<FoundLog> {
    const isThere = (pattern: string) => this.#filesOf(pattern).length > 0
    const journal = ['/var/log/journal', '/run/log/journal'].find(place => isThere(`${place}/*/*.journal`))
    if (journal !== undefined && path.split(':').some(bin => existsSync(this.#at(`${bin}/journalctl`)))) {
      const about = 'the systemd journal, since the last boot'
      const sample = () => newestEntries(this.#root === '' ? [] : ['-D', this.#at(journal)])
      const options = { type: 'journald', read_from: 'boot' }
      const log: FoundLog = { id: 'journal', about, isTimed: true, isLong: false, path: journal, options, sample }
      this.logs.push(log)
      yield log
    }
    for (const [id, service] of Object.entries(SERVICES)) {
      const log = this.#add(id, id.split('_')[0]!, service)
      if (log) yield log
    }
    yield* this.#growing()
  }

  /** Receivers that listen here, as TYPE=ADDRESS. */
  get receivers(): string[] {
    return Object.entries(RECEIVERS).flatMap(([port, to]) => (this.#ports.includes(Number(port)) ? [to] : []))
  }

  /** What is not possible yet, and what the search could not read. */
  get remarks(): string[] {
    const proc = this.#at('proc')
    const processes = existsSync(proc) ? readdirSync(proc).filter(name => /^\d+$/.test(name)) : []
    const names = processes.map(id => machineText(join(proc, id, 'comm')).trim())
    const shippers = new Set(names.filter(name => SHIPPERS.test(name)))
    const hasDocker = this.logs.some(({ id }) => id === 'docker')
    const isMatched = (pattern: string) => this.#matches(pattern).length > 0
    const [refused, ...others] = this.#refused
    const more = others.length > 0 ? ` and ${others.length} more` : ''
    const smaller = counted(this.#left, 'smaller file')
    return [
      ...[...shippers].map(name => `${name} runs: ${NO_POSITIONS}, then stop ${name}`),
      this.#ports.includes(4317) && !this.#ports.includes(4318) && NO_GRPC,
      hasDocker && NO_DOCKER_NAMES,
      !hasDocker && isMatched(`${CONTAINERS}/*`) && NO_DOCKER_FILES,
      isMatched('/var/log/pods/*') && NO_PODS,
      this.#left > 0 && `${smaller} in /var/log: name those to read, as in --read "/var/log/*.log"`,
      refused !== undefined && `${refused}${more}: this user may not read this; use sudo, or join the group adm`,
    ].filter(text => text !== false)
  }

  get #ports(): readonly number[] {
    const read = () => ['tcp', 'tcp6'].map(name => machineText(this.#at(`proc/net/${name}`))).join('')
    this.#listening ??= (read().match(/:\w{4}(?= \S+ 0A )/g) ?? []).map(port => Number.parseInt(port.slice(1), 16))
    return this.#listening
  }

  #at(path: string): string {
    return join(this.#root, path)
  }

  /** The log with this number or id, or in the files of a pattern such as `/srv/*.log`. Undefined if there is none. */
  find(name: string): FoundLog | undefined {
    const known = this.logs.find(({ id }, i) => name === id || name === String(i + 1))
    return known ?? this.#add(...nameOf(resolve(name)), ['text', [resolve(name)]])
  }

  /** Adds the largest text files in /var/log that changed within a day. */
  *#growing(): Iterable<FoundLog> {
    // Each folder has its own pattern, because the search for a pattern ends at a folder that this user may not list.
    const folders = this.#matches('/var/log/*').filter(({ kind }) => kind === 'folder')
    const inFolders = folders.map(({ path }) => `${literalGlob(path.slice(this.#root.length))}/*`)
    const since = systemClock.wall() - DAY_MS
    const growing = ['/var/log/*', ...inFolders]
      .flatMap(pattern => this.#filesOf(pattern))
      .filter(({ path, size, mtimeMs }) => size > 0 && mtimeMs > since && !ROTATED.test(path) && !this.#seen.has(path))
      .sort((a, b) => b.size - a.size)
    const most = this.logs.length + MOST_GROWING
    while (this.logs.length < most && growing.length > 0) {
      const { path } = growing.shift()!
      if (newestLines(this.#root + path).includes('\0')) continue
      const log = this.#add(...nameOf(path), ['text', [literalGlob(path)]])
      if (log) yield log
    }
    this.#left = growing.length
  }

  /** Adds and returns the log in the readable files of a service, if there are any. */
  #add(name: string, app: string, [codec, include, { text, named } = {}]: Service): FoundLog | undefined {
    const found = include.map(pattern => ({ pattern, files: this.#filesOf(pattern) }))
    const files = found.flatMap(({ files }) => files)
    if (files.length === 0) return undefined
    const patterns = found.flatMap(({ pattern, files }) => (files.length > 0 ? [pattern] : []))
    for (const { path } of files) this.#seen.add(path)
    const bytes = files.reduce((sum, { size }) => sum + size, 0)
    const { path } = files.reduce((a, b) => (b.mtimeMs > a.mtimeMs ? b : a))
    const sample = () => newestLines(this.#root + path)
    const format = logFormat(sample(), codec)
    const isLong = bytes > FROM_BEGINNING_BYTES
    const more = files.length > 1 ? ` and ${files.length - 1} more` : ''
    const set = { '.app': format.app === undefined ? app : `\${.${format.app}}` }
    const ids = [LIMIT_ID, UPSTREAM_ID, ...this.logs.map(log => log.id)]
    let id = name
    for (let n = 2; ids.includes(id); n++) id = `${name}_${n}`
    const log: FoundLog = {
      ...{ id, path, sample, isTimed: format.isTimed, isLong },
      about: `${format.decode}, ${formatSize(bytes)}${isLong ? ', new lines only' : ''}, ${path}${more}`,
      options: {
        ...{ type: 'file', include: patterns },
        ...(format.decode === 'text' ? text : { decode: format.decode }),
        ...(isLong && { read_from: 'end' }),
      },
      named: named ?? (format.app === 'app' ? undefined : { type: 'edit', steps: [{ set }] }),
      doubt: this.logs[0]?.id === 'journal' && OF_JOURNAL.test(path) && 'in the journal, too',
    }
    this.logs.push(log)
    return log
  }

  #matches(pattern: string) {
    return [...matchesOf([literalGlob(this.#root) + pattern])]
  }

  /** The readable files of a pattern whose names have no control characters. Below another root folder, links that lead out of it are not followed. */
  #filesOf(pattern: string) {
    return this.#matches(pattern).flatMap(({ kind, path, error }) => {
      const own = path.slice(this.#root.length)
      try {
        if (error !== undefined) throw error
        if (kind !== 'file' || printable(path) !== path || !realpathSync(path).startsWith(`${this.#root}/`)) return []
        accessSync(path, constants.R_OK)
        const { size, mtimeMs } = statSync(path)
        return [{ path: own, size, mtimeMs }]
      } catch (error) {
        if (errorCode(error) === 'EACCES') this.#refused.add(own)
        return []
      }
    })
  }
}

/** The id of a source and its app, by the name of the file and, below /var/log, of its folder. */
function nameOf(path: string): [id: string, app: string] {
  const plain = (text: string) => text.replace(/[*?[\]{}$\\]+/g, '')
  const [file, folder] = [plain(basename(path).replace(/\.\w+$/, '')), plain(basename(dirname(path)))]
  const isNamed = file !== '' && (!/^\/var\/log\/./.test(dirname(path)) || file.startsWith(folder))
  const app = isNamed ? file : [folder, file].filter(Boolean).join('_')
  const id = app.toLowerCase().replace(/\W+/g, '_')
  return [id.replace(/^[^a-z]+|_$/g, '') || 'log', app]
}

/** The glob pattern that matches only `path`. */
export function literalGlob(path: string): string {
  return path.replace(/[\\*?[\]{}()!+@|]/g, '\\$&')
}
