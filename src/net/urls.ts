/** The URL without parts that may be secret. */
export function withoutQuery(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//')
}

/** A parameter in the query of a URL, and where its value is. */
export interface Parameter {
  readonly name: string
  readonly from: number
  readonly to: number
}

/** The parameters of a URL that have a value. */
export function parametersOf(url: string): Parameter[] {
  const query = /^[^?#]*\?([^#]*)/.exec(url)?.[1]
  if (query === undefined) return []
  const found: Parameter[] = []
  let at = url.indexOf('?') + 1
  for (const text of query.split(/[&;]/)) {
    const value = text.indexOf('=') + 1
    if (value > 0) found.push({ name: decoded(text.slice(0, value - 1)), from: at + value, to: at + text.length })
    at += text.length + 1
  }
  return found
}

/** Names of parameters that hold keys: `token`, `dd-api-key`, `X-Amz-Signature`. `p` is the password of InfluxDB. */
const SECRET_PARAMETER =
  /(?:token|secret|passw(?:or)?d|pwd|pass|key|auth|authorization|credentials?|sig|signature|sas|jwt|session|sessionid)s?$|^(?:code|p)$/

/** Whether the value of a parameter with this name is a key or a password. */
export const isSecretParameter = (name: string): boolean =>
  SECRET_PARAMETER.test(name.replace(/[^A-Za-z]/g, '').toLowerCase())

/** The text that stands in a query as `text`. Parsers of URLs ignore line breaks and tabs. */
export function decoded(text: string): string {
  if (!/[%+\t\n\r]/.test(text)) return text
  const [value = ''] = new URLSearchParams(`=${text.replace(/[\t\n\r]/g, '')}`).values()
  return value
}

/** Whether a segment of a path is a step to its own or the upper folder. */
export const isDotSegment = (segment: string): boolean => /^(?:\.|%2e){1,2}$/i.test(segment)

/** The ports of schemes, and which of them are TLS. */
const SCHEMES: Readonly<Record<string, { readonly port: number; readonly isTls?: true }>> = {
  'http:': { port: 80 },
  'https:': { port: 443, isTls: true },
  'redis:': { port: 6379 },
  'rediss:': { port: 6379, isTls: true },
  'tcp:': { port: 0 },
  'tls:': { port: 0, isTls: true },
}

/** Where the URL of a server leads. */
export interface Place {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
}

export function placeOf({ protocol, hostname, port }: URL): Place {
  const { port: usual = 80, isTls = false } = SCHEMES[protocol] ?? {}
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || usual), isTls }
}
