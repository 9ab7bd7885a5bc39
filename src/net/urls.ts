/** Returns the URL without parts that may be secret: user, password, keys in the path, parameters, query and fragment. */
export function withoutQuery(url: string): string {
  return withoutPathKeys(
    url
      .replace(/[?#].*$/s, '')
      .replace(/\/\/[^/@]*@/, '//')
      .replace(/;[^/]*/g, ''),
  )
}

/** The segments of the path, but not the host. */
const SEGMENTS = /(?<=[^/:]\/+)[^/?#;\s]+/g

/** Whether a text looks like a key: it is long and has digits after letters. */
export const isLikeKey = (text: string): boolean =>
  text.length >= 20 && /^[\w+/=-]+$/.test(text) && (text.match(/[A-Za-z]\d/g)?.length ?? 0) >= 3

/** The keys in the path of a URL, as in addresses of webhooks. */
export const pathKeysOf = (url: string): string[] =>
  (url.replace(/[?#].*$/s, '').match(SEGMENTS) ?? []).filter(isLikeKey)

export function withoutPathKeys(url: string, by = '…'): string {
  return pathKeysOf(url).reduce((text, key) => text.replaceAll(key, by), url)
}

/** A range of character offsets in a text. `to` is exclusive. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** A parameter of a URL. The span covers the value of the parameter. */
export interface Parameter extends Span {
  /** Empty if the parameter has only a value. */
  readonly name: string
}

/** The start of a URL, including the host. Like URL parsers, ignores line breaks, tabs and repeated slashes. */
const AUTHORITY = /^\s*[a-z][a-z\d+.\t\n\r-]*:[/\\\t\n\r]*([^/\\?#]*)/dis

/** Returns the parameters that have a value: in the query, after a #, and in the path, as in `/logs;token=VALUE`. */
export function parametersOf(url: string): Parameter[] {
  const pathAt = AUTHORITY.exec(url)?.[0].length ?? 0
  const found: Parameter[] = []
  for (const { 0: text, index } of url.slice(pathAt).matchAll(/;[^;/?#]*|[?#].*$/gs)) {
    let at = pathAt + index + 1
    for (const item of text.slice(1).split(/[&;#]/)) {
      const value = item.indexOf('=') + 1
      const named = {
        name: decodedQuery(item.slice(0, Math.max(0, value - 1))),
        from: at + value,
        to: at + item.length,
      }
      const isPath = text.startsWith(';')
      if (isPath ? value > 0 : !/^[A-Za-z_.-]{0,20}=$|^$/.test(item))
        found.push(isBare(item) ? { ...named, name: '', from: at } : named)
      at += item.length + 1
    }
  }
  return found
}

/** Whether a parameter has only a value. Equals signs at the end are base64 padding. */
const isBare = (item: string): boolean => /^[^=]*=*$/.test(item)

export function userOf(url: string): { readonly user: Span; readonly password: Span | undefined } | undefined {
  const [from = 0] = AUTHORITY.exec(url)?.indices?.[1] ?? []
  const authority = AUTHORITY.exec(url)?.[1] ?? ''
  const end = authority.lastIndexOf('@')
  if (end <= 0) return undefined
  const colon = authority
    .slice(0, end)
    .replace(/\$\{[^}]*\}/g, text => '$'.repeat(text.length))
    .indexOf(':')
  const user = { from, to: from + (colon < 0 ? end : colon) }
  return { user, password: colon < 0 ? undefined : { from: from + colon + 1, to: from + end } }
}

/** Names of parameters that hold keys: `token`, `dd-api-key`, `X-Amz-Signature`. `p` is the password of InfluxDB. */
const SECRET_PARAMETER =
  /(?:token|secret|passw(?:or)?d|pwd|pass|key|auth|authorization|credentials?|sig|signature|sas|jwt|session|sessionid)s?$|^(?:code|p)$/

export const isSecretParameter = (name: string): boolean =>
  SECRET_PARAMETER.test(name.replace(/[^A-Za-z]/g, '').toLowerCase())

/** Decodes text of a query. Ignores line breaks and tabs, as URL parsers do. */
export function decodedQuery(text: string): string {
  if (!/[%+\t\n\r]/.test(text)) return text
  const [value = ''] = new URLSearchParams(`=${text.replace(/[\t\n\r]/g, '')}`).values()
  return value
}

/** Whether a path segment is `.` or `..`, encoded or not. */
export const isDotSegment = (segment: string): boolean => /^(?:\.|%2e){1,2}$/i.test(segment)

/** The default ports of schemes, and whether they use TLS. */
const SCHEMES: Readonly<Record<string, { readonly port: number; readonly isTls?: true }>> = {
  'http:': { port: 80 },
  'https:': { port: 443, isTls: true },
  'redis:': { port: 6379 },
  'rediss:': { port: 6379, isTls: true },
  'kafka:': { port: 9092 },
  'tcp:': { port: 0 },
  'tls:': { port: 0, isTls: true },
}

/** The address in the URL of a server. */
export interface UrlPlace {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
}

export function urlPlace({ protocol, hostname, port }: URL): UrlPlace {
  const { port: usual = 80, isTls = false } = SCHEMES[protocol] ?? {}
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || usual), isTls }
}

/** Whether a host is certainly this machine. Not true for names such as 127.0.0.1.example.com. */
export const isLoopback = (host: string): boolean => /^(localhost|127(\.\d+){1,3}|::1|\[::1\])$/.test(host)
