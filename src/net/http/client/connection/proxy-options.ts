import { z } from 'zod'
import { once, refuse, secret } from '../../../../core/options/options.js'
import { filePath, reaches } from '../../../../core/options/reach.js'
import { isAddressOrRange } from '../../../../lib/network/address-list.js'

/** An http or https URL without possible secrets in it. */
export const httpUrl = once(() => {
  const schema = z.string().superRefine((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
      refuse(context, 'must be a whole address that begins with http:// or https://')
    } else if (url.username || url.password) {
      refuse(context, 'must not hold a user name or password; use "auth" or "headers"')
    } else if (url.hash) refuse(context, 'must not have a part after "#"')
  })
  return reaches('urls', schema)
})

const proxyUrl = httpUrl().superRefine((text, context) => {
  const { pathname, search } = URL.canParse(text) ? new URL(text) : { pathname: '/', search: '' }
  if (pathname !== '/' || search !== '') refuse(context, 'must be a scheme, a host and a port, as in http://proxy:3128')
})

const auth = z
  .strictObject({
    user: reaches('nothing', z.string().min(1))
      .refine(text => !text.includes(':'), { error: 'must be a name without a colon', params: { constant: true } })
      .describe('The user name.'),
    password: secret().optional().describe('The password itself; better from the environment: ${PROXY_PASSWORD}.'),
    password_file: filePath().optional().describe('File that holds the password, read again when it changes.'),
    credential: reaches('credentials', z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]*$/))
      .optional()
      .describe('Name of a systemd credential (LoadCredential=) that holds the password.'),
  })
  .superRefine((auth, context) => {
    const given = (['password', 'password_file', 'credential'] as const).filter(name => auth[name] !== undefined)
    if (given.length !== 1)
      refuse(
        context,
        `needs exactly one of password, password_file and credential; ${given.join(' and ') || 'none'} given`,
      )
  })

const withoutProxy = reaches('nothing', z.string().min(1)).superRefine((text, context) => {
  const host = text.replace(/:\d+$/, '').replace(/^\*?\./, '')
  if (text !== '*' && !isAddressOrRange(text) && !/^[\w.-]+$/.test(host) && !/^\[[\da-f:.]+\]$/i.test(host))
    refuse(
      context,
      'must be a host, a domain such as .example.com, an address, a range such as 10.0.0.0/8, or "*"',
      true,
    )
})

/** How requests reach the receiver if not directly. */
export const proxy = z.union([
  z.literal('environment'),
  z.strictObject({
    url: proxyUrl.describe('The proxy, as in http://proxy.example.com:3128.'),
    auth: auth.optional().describe('User and password for the proxy (Basic). They are never logged.'),
    no_proxy: z
      .array(withoutProxy)
      .default([])
      .describe('Hosts, domains, addresses and ranges that are reached without the proxy.'),
  }),
])

export type ProxyOptions = z.output<typeof proxy>
