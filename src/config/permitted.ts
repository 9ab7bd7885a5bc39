import { resolve } from 'node:path'
import { type ListenAddress, listenText } from '../lib/inherited-sockets.js'
import type { ComponentConfig, Config } from './load.js'
import type { Fault } from './parse-options.js'
import { SECTIONS } from './schema.js'

/** What a configuration that comes from elsewhere may reach on this machine and from it. 'all': whatever it names. */
export interface Permitted {
  /** Patterns of absolute paths: `*` stands for any part of a name, `**` for any number of folders. */
  readonly files: readonly string[] | 'all'
  /** What addresses of http must begin with. */
  readonly urls: readonly string[] | 'all'
  /** Addresses to listen on, as they are written. */
  readonly listen: readonly string[] | 'all'
  /** Names of systemd credentials. */
  readonly credentials: readonly string[] | 'all'
}

type Reach = keyof Permitted

/** Options that name something outside, by the type of the component. */
const LISTENS = {
  listen: 'listen',
  'tls.cert_file': 'files',
  'tls.key_file': 'files',
  'tls.client_ca_file': 'files',
} as const
const KEYS = { 'auth.key_file': 'files', 'auth.credential': 'credentials' } as const
const REACHES: Readonly<Record<string, Readonly<Record<string, Reach>>>> = {
  'source ingest': {},
  'source stdin': {},
  'source file': { include: 'files' },
  'source journald': { directory: 'files', files: 'files' },
  'source tcp': LISTENS,
  'source http': { ...LISTENS, ...KEYS },
  'processor throttle': {},
  'processor filter': {},
  'destination http': {
    url: 'urls',
    validate: 'urls',
    ...KEYS,
    'tls.ca_file': 'files',
    'tls.cert_file': 'files',
    'tls.key_file': 'files',
  },
  'destination file': { path: 'files' },
  'destination stdout': {},
  'destination blackhole': {},
}

/** What a component reaches when it names nothing. */
const UNNAMED: Readonly<Record<string, { readonly option: string; readonly value: string }>> = {
  'source journald': { option: 'directory', value: '/var/log/journal' },
}

/** Whether it is known what a component of this type reaches. */
export function isRuled(kind: string, type: string): boolean {
  return Object.hasOwn(REACHES, `${kind} ${type}`)
}

const WHAT: Record<Reach, (value: string) => string> = {
  files: value => `${value} is not among the files that it may use`,
  urls: value => `${value} is not among the addresses that it may send to`,
  listen: value => `${value} is not among the addresses that it may listen on`,
  credentials: value => `${value} is not among the credentials that it may use`,
}

/** Everything that a configuration names and may not reach. */
export function refusedBy(
  permitted: Permitted,
  config: Pick<Config, 'sources' | 'processors' | 'destinations'>,
): Fault[] {
  const components: readonly ComponentConfig[] = [...config.sources, ...config.processors, ...config.destinations]
  return components.flatMap(({ id, kind, type, options }) => {
    const place = `${SECTIONS[kind]}.${id}`
    const reaches = REACHES[`${kind} ${type}`]
    if (!reaches)
      return [{ path: `${place}.type`, message: `a ${kind} of the type ${type} is not used from elsewhere` }]
    const named = Object.entries(reaches).flatMap(([path, reach]) =>
      valuesAt(options, path).map(value => ({ path, reach, value })),
    )
    const { option, value } = UNNAMED[`${kind} ${type}`] ?? {}
    if (named.length === 0 && option !== undefined && value !== undefined)
      named.push({ path: option, reach: reaches[option]!, value })
    return named
      .filter(({ reach, value }) => !isPermitted(permitted[reach], reach, value))
      .map(({ path, reach, value }) => ({ path: `${place}.${path}`, message: WHAT[reach](value) }))
  })
}

function valuesAt(options: unknown, path: string): string[] {
  const value = path
    .split('.')
    .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], options)
  if (value === undefined || value === null) return []
  return (Array.isArray(value) ? value : [value]).map(one =>
    typeof one === 'object' && one !== null && ('port' in one || 'systemd' in one)
      ? listenText(one as ListenAddress)
      : String(one),
  )
}

function isPermitted(permitted: readonly string[] | 'all', reach: Reach, value: string): boolean {
  if (permitted === 'all') return true
  if (reach === 'files') return isWithin(value, permitted)
  if (reach === 'urls') return permitted.some(prefix => beginsWith(value, prefix))
  return permitted.includes(value)
}

/** `path` may be a pattern itself: what is a sign in it stands for itself here, and nothing leads upwards. */
function isWithin(path: string, patterns: readonly string[]): boolean {
  // Braces may hide a way out: `/var/log/{a,../../etc/passwd}`.
  if (/(^|[/{,])\.\.($|[/},])/.test(path)) return false
  const name = resolve(path)
  return patterns.some(pattern => pattern === name || patternOf(pattern).test(name))
}

function patternOf(pattern: string): RegExp {
  const signs: Record<string, string> = {
    '/**/': '/(?:[^{}]*/)?',
    '/**': '/[^{}]*',
    '**': '[^{}]*',
    '*': '[^/{}]*',
    '?': '[^/{}]',
  }
  const text = pattern.replace(/\/\*\*\/|\/\*\*$|\*\*|[*?]|[.+^${}()|[\]\\]/g, sign => signs[sign] ?? `\\${sign}`)
  return new RegExp(`^${text}$`)
}

/** The same origin, and a path that begins with that of the prefix. */
function beginsWith(value: string, prefix: string): boolean {
  try {
    const [url, allowed] = [new URL(value), new URL(prefix)]
    if (url.origin !== allowed.origin) return false
    const path = allowed.pathname.endsWith('/') ? allowed.pathname : `${allowed.pathname}/`
    return url.pathname === allowed.pathname || url.pathname.startsWith(path)
  } catch {
    return false
  }
}
