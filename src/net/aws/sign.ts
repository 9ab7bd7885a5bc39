import { createHash, createHmac } from 'node:crypto'

/** AWS Signature Version 4, as S3 and compatible servers expect it. */

export interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
}

export interface Signable {
  readonly method: string
  readonly host: string
  /** The path exactly as it is sent. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  /** Headers by lower-case name. All are signed. */
  readonly headers: Readonly<Record<string, string>>
  /** In parts. Undefined: the signature does not cover the body. */
  readonly body: readonly Buffer[] | undefined
}

export interface CredentialScope {
  readonly region: string
  readonly service: string
}

const ALGORITHM = 'AWS4-HMAC-SHA256'

const UNSIGNED = 'UNSIGNED-PAYLOAD'

export const digest = (algorithm: 'sha256' | 'md5', parts: readonly (Buffer | string)[]) =>
  parts.reduce((hash, part) => hash.update(part), createHash(algorithm))

const sha256 = (content: string) => digest('sha256', [content]).digest('hex')

const hmac = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest()

/** Encodes characters as `%XX`, except unreserved ones (RFC 3986). */
export const encodeUri = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)

/** Returns the query in the order in which it is signed and sent. */
export function queryText(query: Signable['query']): string {
  const pairs = Object.entries(query).map(([name, value]) => `${encodeUri(name)}=${encodeUri(value)}`)
  return pairs.sort().join('&')
}

/** Returns `headers` with the headers of the signature added. `at`: wall clock in milliseconds. */
export function sign(
  { method, host, path, query, headers, body }: Signable,
  { accessKeyId, secretAccessKey, sessionToken }: Credentials,
  { region, service }: CredentialScope,
  at: number,
): Record<string, string> {
  const time = new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')
  const [date = ''] = time.split('T')
  const hash = body ? digest('sha256', body).digest('hex') : UNSIGNED
  const added = {
    ...headers,
    'x-amz-date': time,
    ...(service === 's3' && { 'x-amz-content-sha256': hash }),
    ...(sessionToken && { 'x-amz-security-token': sessionToken }),
  }
  const signed = Object.entries({ ...added, host }).sort(([a], [b]) => (a < b ? -1 : 1))
  const names = signed.map(([name]) => name).join(';')
  const lines = signed.map(([name, value]) => `${name}:${value.trim().replace(/ +/g, ' ')}\n`).join('')
  const canonical = [method, path, queryText(query), lines, names, hash].join('\n')
  const scope = `${date}/${region}/${service}/aws4_request`
  const text = [ALGORITHM, time, scope, sha256(canonical)].join('\n')
  const key = [date, region, service, 'aws4_request'].reduce<Buffer | string>(hmac, `AWS4${secretAccessKey}`)
  const signature = hmac(key, text).toString('hex')
  return {
    ...added,
    authorization: `${ALGORITHM} Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
  }
}
