import { z } from 'zod'
import { duration, refuse } from '../../../core/options/options.js'
import { absolutePath, filePath } from '../../../core/options/reach.js'
import type { AddressRules } from '../../../lib/network/address-rules.js'
import { SECRET_NAME } from './account-secrets.js'

/** The files, addresses and credentials that a published pipeline may use. */
export interface Permissions {
  /** Patterns of absolute paths: `*` matches any part of a name, `**` any number of folders. */
  readonly files: readonly string[]
  /** Folders whose files are always denied, even if `files` matches them. */
  readonly never: readonly string[]
  /** Allowed URL prefixes. Their hosts may resolve to any IP address. */
  readonly urls: readonly string[] | 'all'
  /** If `urls` is 'all': the IP addresses to which components may connect. Undefined if they may connect to all. */
  readonly addresses?: AddressRules | undefined
  /** Addresses that sources may listen on, as written. */
  readonly listen: readonly string[]
  readonly credentials: readonly string[]
  readonly code?: boolean
}

const names = (text: string, name = z.string().min(1)) => z.array(name).default([]).describe(text)

const secretPlace = z
  .strictObject({
    file: filePath().optional().describe('A file that contains only the value.'),
    credential: z.string().min(1).optional().describe('The name of a systemd credential (LoadCredential=).'),
    env: z.string().min(1).optional().describe('The name of an environment variable.'),
  })
  .superRefine((place, context) => {
    if (Object.keys(place).length !== 1) refuse(context, 'needs exactly one of file, credential and env')
  })

/** The local section `managed`: permissions of a published pipeline on this machine. */
export const managedOptions = z.strictObject({
  allow_files: names(
    'Files that the pipeline may use for its file sources, file destinations, keys and certificates: absolute paths or patterns such as /var/log/app/**. Each pattern in the pipeline must lie within one of the listed patterns.',
    absolutePath(),
  ),
  allow_urls: z
    .array(z.url())
    .optional()
    .describe('Prefixes of the URLs that the pipeline may send to. Default: all URLs.'),
  allow_listen: names('Addresses that sources of the pipeline may listen on, as HOST:PORT.'),
  allow_credentials: names('Names of systemd credentials that the pipeline may use.'),
  allow_env: names('Names of environment variables that the pipeline may use, as in ${NAME}.'),
  allow_code: z
    .boolean()
    .default(false)
    .describe(
      'Whether the pipeline may run code on this machine, as in the processor `script`. That code has all rights of the daemon.',
    ),
  secrets: z
    .record(z.string().regex(SECRET_NAME, { error: 'must be the name of a secret' }), secretPlace)
    .default({})
    .describe(
      'Where this machine keeps the value of each secret, by its name. Published pipelines refer to it as ${secret:NAME}. The service does not send the values.',
    ),
  poll_interval: duration(1000)
    .prefault('10 Seconds')
    .describe('Polling interval for new revisions. It varies randomly by up to a fifth.'),
  report_interval: duration(1000)
    .prefault('60 Seconds')
    .describe('How often the daemon reports its revision, health and totals. Changes are reported immediately.'),
})

export type SecretPlace = z.output<typeof secretPlace>
export type ManagedOptions = z.output<typeof managedOptions>

/** The permissions for `refusedBy`. `dataDir`: the daemon's data folder, which is always denied. */
export function permittedBy(options: ManagedOptions, dataDir: string): Permissions {
  return {
    files: options.allow_files,
    never: [dataDir],
    urls: options.allow_urls ?? 'all',
    listen: options.allow_listen,
    credentials: options.allow_credentials,
    code: options.allow_code,
  }
}
