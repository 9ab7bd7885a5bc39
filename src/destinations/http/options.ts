import zlib from 'node:zlib'
import { z } from 'zod'
import { duration, refuse, secret } from '../../core/options.js'

/** What RFC 9110 allows as a header name, and as an authentication scheme. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const HEADER_VALUE = /^[\t\x20-\x7e]*$/

/** Headers that follow from the request itself. */
const OWN_HEADERS = new Set(
  'host connection content-length content-encoding transfer-encoding expect upgrade keep-alive te trailer idempotency-key'.split(
    ' ',
  ),
)

/** As `refuse`, of an option further in. */
function refuseAt(context: z.RefinementCtx, path: string[], message: string): void {
  context.addIssue({ code: 'custom', message, path, params: { constant: true } })
}

function httpUrl() {
  return z.string().superRefine((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
      refuse(context, 'must be a whole address that begins with http:// or https://')
    } else if (url.username || url.password) {
      refuse(context, 'must not hold a user name or password; use "auth" or "headers"')
    } else if (url.hash) refuse(context, 'must not have a part after "#"')
  })
}

const auth = z
  .strictObject({
    type: z.enum(['token', 'none']).prefault('token').describe('token: a key in a header. none: no authentication.'),
    key: secret().optional().describe('The key itself; better from the environment: ${SLUICE_ACCESS_KEY}.'),
    key_file: z
      .string()
      .min(1)
      .optional()
      .describe('File that holds the key, read again when it changes. A newline at its end does not matter.'),
    credential: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._@-]*$/, { error: 'must be the name of a systemd credential' })
      .optional()
      .describe('Name of a systemd credential (LoadCredential=) that holds the key.'),
    scheme: z
      .string()
      .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]*$/, { error: 'must be one word' })
      .prefault('Token')
      .describe('The word before the key, such as Token or Bearer. Empty: the key stands alone.'),
    header: z
      .string()
      .regex(TOKEN, { error: 'must be the name of a header' })
      .prefault('Authorization')
      .describe('The header that carries the key.'),
  })
  .superRefine((auth, context) => {
    const given = (['key', 'key_file', 'credential'] as const).filter(name => auth[name] !== undefined)
    if (auth.type === 'none') {
      for (const name of given) refuseAt(context, [name], 'has no use with type: none')
    } else if (given.length !== 1) {
      refuse(context, `needs exactly one of key, key_file and credential; ${given.join(' and ') || 'none'} given`)
    }
    const problem = auth.key && keyProblem(trimKey(auth.key.reveal()))
    if (problem) refuseAt(context, ['key'], problem)
  })

const tls = z
  .strictObject({
    ca_file: z
      .string()
      .min(1)
      .optional()
      .describe('Certificates (PEM) of the authorities to trust, in place of the usual ones.'),
    server_name: z
      .string()
      .min(1)
      .optional()
      .describe("The name that the receiver's certificate must have, if not that of the URL."),
    cert_file: z.string().min(1).optional().describe('Client certificate (PEM), for receivers that ask for one.'),
    key_file: z.string().min(1).optional().describe('Private key (PEM) of the client certificate.'),
  })
  .superRefine((tls, context) => {
    if ((tls.cert_file === undefined) !== (tls.key_file === undefined)) {
      refuse(context, 'cert_file and key_file belong together: give both or neither')
    }
  })

export const options = z
  .strictObject({
    url: httpUrl().describe('Where events are sent to.'),
    method: z.enum(['POST', 'PUT']).prefault('POST').describe('The method of the request.'),
    encoding: z
      .enum(['json', 'raw'])
      .prefault('json')
      .describe('json: NDJSON, every event as a JSON object on a line of its own. raw: the lines as they were read.'),
    headers: z
      .record(
        z.string().regex(TOKEN, { error: 'must be the name of a header' }),
        z.string().regex(HEADER_VALUE, { error: 'must be one line of printable ASCII' }),
      )
      .prefault({})
      .describe('Further headers of every request. Their values are never logged.'),
    auth: auth.prefault({ type: 'none' }).describe('How requests are authenticated.'),
    delegate_account_id: z
      .string()
      .regex(/^[0-9a-fA-F]{24}$/, { error: 'must be 24 hexadecimal digits' })
      .optional()
      .describe('Account to act within, for enterprise keys: sent as x-delegate-account-id.'),
    validate: httpUrl().optional().describe('Asked with HEAD at the start: nothing is sent before it accepts the key.'),
    compression: z
      .enum(['none', 'gzip', 'zstd'])
      .prefault('none')
      .superRefine((compression, context) => {
        if (compression === 'zstd' && !('zstdCompress' in zlib)) {
          refuse(context, `this Node.js (${process.version}) has no zstd; take gzip, or Node.js 22.15 or newer`)
        }
      })
      .describe('How the body is compressed. zstd: where the runtime has it.'),
    connect_timeout: duration()
      .refine(ms => ms <= 3_600_000, { error: 'must be at most 1 Hours', params: { constant: true } })
      .prefault('10 Seconds')
      .describe('Time to connect, within `timeout`.'),
    tls: tls.prefault({}).describe('For https. Certificates are always verified.'),
  })
  .superRefine(({ headers, auth, delegate_account_id }, context) => {
    for (const name of Object.keys(headers)) {
      const lower = name.toLowerCase()
      const other =
        (OWN_HEADERS.has(lower) && 'is set by sluice itself') ||
        (auth.type === 'token' && lower === auth.header.toLowerCase() && 'is set by auth') ||
        (delegate_account_id !== undefined && lower === 'x-delegate-account-id' && 'is set by delegate_account_id')
      if (other) refuseAt(context, ['headers', name], other)
    }
  })

export type HttpOptions = z.output<typeof options>

/** Without the line end that editors and `echo` leave. */
export function trimKey(text: string): string {
  return text.replace(/[\r\n]+$/, '')
}

/** What is wrong with a key, in words that do not show it; undefined when it can be sent. */
export function keyProblem(key: string): string | undefined {
  if (key === '') return 'the key is empty'
  if (/[\r\n]/.test(key)) return 'the key has more than one line'
  if (!/^[\x21-\x7e]+$/.test(key))
    return 'the key has a character that cannot be in a header (a space, a control character, or not ASCII)'
  return undefined
}
