import { isIP } from 'node:net'
import { resolve } from 'node:path'
import type { z } from 'zod'
import { Codec } from '../../../core/codec.js'
import type { Fault } from '../../../core/errors.js'
import { type Reached, textOptions } from '../../../core/options/reach.js'
import { type ListenAddress, listenText } from '../../../lib/network/inherited-sockets.js'
import { Pattern } from '../../../lib/pattern.js'
import { urlPlace, withoutQuery } from '../../../net/urls.js'
import type { ComponentConfig } from '../component-config.js'
import { type Components, componentsOf } from '../inputs.js'
import { deliverySchema, SECTIONS } from '../schema.js'
import type { Permissions } from './managed-options.js'

/** Returns a fault for each resource that a configuration names but must not access. */
export function refusedBy(permitted: Permissions, config: Components): Fault[] {
  return componentsOf(config).flatMap(component => {
    const named = namedBy(component)
    const { reachesUnnamed } = component.definition
    if (reachesUnnamed && named.length === 0)
      named.push({ path: [reachesUnnamed.option], reaches: 'files', value: reachesUnnamed.path })
    return named.flatMap(({ path, reaches, value }) => {
      const message = reaches === undefined ? UNKNOWN : RULES[reaches](value, permitted)
      return message === undefined
        ? []
        : [{ path: [SECTIONS[component.kind], component.id, ...path].join('.'), message }]
    })
  })
}

interface Named {
  readonly path: readonly string[]
  /** The kind of resource that the option names; undefined if not declared. */
  readonly reaches: keyof typeof RULES | undefined
  readonly value: string
}

/** The resources outside the process that a component's options refer to. */
function namedBy({ definition, options, delivery }: ComponentConfig): Named[] {
  const parts: [z.ZodType, unknown][] = [[definition.options, options]]
  if (delivery) parts.push([deliverySchema(definition), delivery])
  return parts.flatMap(([schema, values]) =>
    textOptions(schema).flatMap(({ path, reaches }) =>
      reaches === 'nothing' || reaches === 'secret'
        ? []
        : valuesAt(values, path).map(value => ({ path: path.filter(step => step !== '*'), reaches, value })),
    ),
  )
}

const UNKNOWN = 'this option cannot be used in a published pipeline'

const NO_CODE =
  'a published pipeline must not run code; run this component in a daemon with its own configuration, or in a daemon that permits code (managed: { allow_code: true })'

/** Rules by kind of resource. Each returns why a value is denied, or undefined if it is allowed. */
const RULES: Record<
  Exclude<Reached, 'nothing' | 'secret'>,
  (value: string, permitted: Permissions) => string | undefined
> = {
  files(path, { files, never }) {
    if (never.some(folder => isBelow(resolve(path), folder)))
      return `${path} is in the folder where this process keeps its state`
    return isWithin(path, files) ? undefined : `${path} is not among the files that the pipeline may use`
  },
  urls(url, { urls, addresses }) {
    if (urls !== 'all')
      return urls.some(prefix => beginsWith(url, prefix))
        ? undefined
        : `${withoutQuery(url)} is not among the addresses that the pipeline may send to`
    const { host, port } = literalAddress(url)
    const denied = host === undefined ? undefined : addresses?.denied(host, port)
    return denied && `the pipeline must not send to ${host}, which is ${denied}`
  },
  listen: (value, { listen }) =>
    listen.includes(value) ? undefined : `${value} is not among the addresses that the pipeline may listen on`,
  credentials: (value, { credentials }) =>
    credentials.includes(value) ? undefined : `${value} is not among the credentials that the pipeline may use`,
  code: (_value, { code }) => (code ? undefined : NO_CODE),
  host: () => 'a published pipeline cannot read facts or environment variables of the machine that runs it',
}

/**
 * The IP address (`host`) and port of a URL. A name such as localhost has a known `host`. For other names, `host` is
 * undefined.
 */
function literalAddress(url: string): { host: string | undefined; port: number } {
  const { port } = urlPlace(new URL(url))
  // The parser normalizes hosts such as 127.1 and LOCALHOST only in http URLs.
  const { hostname } = new URL(url.replace(/^[a-z]+:/i, 'http:'))
  const name = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  const host = isIP(name) ? name : /(^|\.)localhost$/.test(name) ? '127.0.0.1' : undefined
  return { host, port }
}

function valuesAt(value: unknown, path: readonly string[]): string[] {
  if (value === undefined || value === null) return []
  const [step, ...rest] = path
  if (step === '*') return typeof value === 'object' ? Object.values(value).flatMap(item => valuesAt(item, rest)) : []
  if (step !== undefined) {
    const members = value instanceof Codec ? value.options : (value as Record<string, unknown>)
    return valuesAt(members[step], rest)
  }
  if (Array.isArray(value)) return value.flatMap(item => valuesAt(item, []))
  const isAddress = typeof value === 'object' && ('port' in value || 'systemd' in value)
  return [isAddress ? listenText(value as ListenAddress) : String(value)]
}

/** `path` may be a pattern, too. Its wildcards are compared literally. If `path` contains "..", returns false. */
function isWithin(path: string, patterns: readonly string[]): boolean {
  // Braces could hide a "..": `/var/log/{a,../../etc/passwd}`.
  if (/(^|[/{,])\.\.($|[/},])/.test(path)) return false
  const name = resolve(path)
  return patterns.some(pattern => patternMatches(pattern, name))
}

/** Whether an absolute path is the folder or inside it. */
export function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
}

export function patternMatches(pattern: string, path: string): boolean {
  return pattern === path || patternOf(pattern).test(path)
}

function patternOf(pattern: string): Pattern {
  const signs: Record<string, string> = {
    '/**/': '/(?:[^{}]*/)?',
    '/**': '/[^{}]*',
    '**': '[^{}]*',
    '*': '[^/{}]*',
    '?': '[^/{}]',
  }
  const text = pattern.replace(/\/\*\*\/|\/\*\*$|\*\*|[*?]|[.+^${}()|[\]\\]/g, sign => signs[sign] ?? `\\${sign}`)
  return new Pattern(`^${text}$`, '')
}

/** Whether the URL has the origin of the prefix, and the path of the URL begins with the path of the prefix. */
function beginsWith(value: string, prefix: string): boolean {
  try {
    const [url, allowed] = [new URL(value), new URL(prefix)]
    // Does not compare origins, because the URL class has origins only for schemes such as http.
    if (url.protocol !== allowed.protocol || url.host !== allowed.host) return false
    const path = allowed.pathname.endsWith('/') ? allowed.pathname : `${allowed.pathname}/`
    return url.pathname === allowed.pathname || url.pathname.startsWith(path)
  } catch {
    return false
  }
}
