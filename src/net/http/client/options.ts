import zlib from 'node:zlib'
import { z } from 'zod'
import { once, refuse, refuseAt } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'
import { templateText } from '../../../core/partition.js'
import { type Template, template } from '../../../core/template.js'
import { dialOptions } from '../../dial-options.js'
import { auth, HEADER_NAME } from '../../key.js'
import { httpUrl } from '../../proxy.js'
import { isDotSegment, isLoopback } from '../../urls.js'

const HEADER_VALUE = /^[\t\x20-\x7e]*$/

/** Headers that Sluice or the HTTP protocol sets. */
const OWN_HEADERS = new Set(
  'host connection content-length content-encoding transfer-encoding expect upgrade keep-alive te trailer idempotency-key'.split(
    ' ',
  ),
)

function templateOf(text: string, context: z.RefinementCtx): Template | undefined {
  const parsed = template().safeParse(text)
  for (const { message } of parsed.error?.issues ?? []) refuse(context, message)
  return parsed.data
}

/** A URL whose path and query may contain field values. */
const templateUrl = once(() => {
  const schema = httpUrl().superRefine((text, context) => {
    const [first = '', ...rest] = templateOf(text, context)?.parts ?? []
    if (rest.length === 0 && typeof first === 'string') return
    if (typeof first !== 'string' || !/^https?:\/\/[^/?#\\]+[/?]/i.test(first))
      refuse(
        context,
        'can have fields only in its path and its query; write the scheme, the host and the port without fields',
      )
    else if (text.replace(/[?].*/s, '').split(/[/\\]/).some(isDotSegment))
      refuse(context, 'must not have "." or ".." in a path that has a field')
  })
  return templateText(reaches('urls', schema))
})

/** A receiver's base URL. As written, it may end with the path (`path`) at which the receiver accepts events. */
export const baseUrl = (path: string) =>
  httpUrl()
    .superRefine((url, context) => {
      if (url.includes('?')) refuse(context, 'must not have a part after "?"')
    })
    .transform(url => {
      const base = withoutSlash(url)
      return new URL(base).pathname.endsWith(path) ? base.slice(0, -path.length) : url
    })

export const withoutSlash = (url: string) => url.replace(/\/+$/, '')

/** Options that all destinations over HTTP share. Other components use some of them. */
export const clientOptions = {
  url: templateUrl().describe(
    'URL to send events to. Its path and query may contain fields, as in `https://logs.example.com/app/${.app:-none}`; their values are encoded. Each request contains the events of one URL.',
  ),
  headers: z
    .record(
      z.string().regex(HEADER_NAME, { error: 'must be the name of a header' }),
      templateText(
        reaches(
          'nothing',
          z.string().regex(HEADER_VALUE, { error: 'must be one line of printable ASCII' }),
        ).superRefine((text, context) => void templateOf(text, context)),
      ),
    )
    .prefault({})
    .describe(
      'Additional headers of every request. Their values may contain fields, as `url` may; values without fields are never logged.',
    ),
  auth: auth.prefault({ type: 'none' }).describe('How requests are authenticated.'),
  validate: httpUrl()
    .optional()
    .describe('URL that is requested with HEAD on start. No events are sent before the server accepts the key.'),
  compression: z
    .enum(['none', 'gzip', 'zstd'])
    .prefault('none')
    .superRefine((compression, context) => {
      if (compression === 'zstd' && !('zstdCompress' in zlib)) {
        refuse(context, `this Node.js (${process.version}) has no zstd; take gzip, or Node.js 22.15 or newer`)
      }
    })
    .describe('Compression of the body. zstd requires a Node.js version that supports it.'),
  ...dialOptions,
}

type Options = z.output<z.ZodObject<typeof clientOptions>>
/** `snappy` is only for receivers that support it. */
export type ClientOptions = Options | (Omit<Options, 'compression'> & { compression: 'snappy' })

/** Rejects options that set the same header twice. `others`: further options, by their header in lower case. */
export function checkHeaders(
  { headers, auth }: Pick<ClientOptions, 'headers' | 'auth'>,
  context: z.RefinementCtx,
  others: Readonly<Record<string, string | undefined>> = {},
): void {
  if (auth.type !== 'none' && OWN_HEADERS.has(auth.header.toLowerCase()))
    refuseAt(context, ['auth', 'header'], 'is set by sluice itself')
  for (const name of Object.keys(headers)) {
    const lower = name.toLowerCase()
    const other =
      (OWN_HEADERS.has(lower) && 'is set by sluice itself') ||
      (auth.type !== 'none' && lower === auth.header.toLowerCase() && 'is set by auth') ||
      (lower === 'proxy-authorization' && 'is set by proxy.auth') ||
      (others[lower] !== undefined && `is set by ${others[lower]}`)
    if (other) refuseAt(context, ['headers', name], other)
  }
}

/** The remote host that would receive the key without encryption; undefined if there is none. */
export function plainKeyHost({ url, auth }: ClientOptions): string | undefined {
  const { hostname, protocol } = new URL(url)
  const isPrivate = auth.type === 'none' || protocol === 'https:' || isLoopback(hostname)
  return isPrivate ? undefined : hostname
}
