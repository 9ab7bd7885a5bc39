import { z } from 'zod'
import { refuse } from '../../core/options/options.js'
import { filePath, reaches } from '../../core/options/reach.js'
import { clientTlsOptions } from '../../net/dial-options.js'

const postgresUrl = reaches(
  'urls',
  z.string().superRefine((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    if (!url || !/^postgres(ql)?:$/.test(url.protocol) || url.hostname === '' || url.username === '')
      refuse(context, 'must be a whole address, as in postgresql://USER@HOST:5432/DATABASE')
    else if (url.password) refuse(context, 'must not hold a password; use "password_file"')
    else if (url.search || url.hash) refuse(context, 'must not have a part after "?" or "#"')
    else if (!/^\/[^/]+$/.test(url.pathname))
      refuse(context, 'must end with the name of the database, as in postgresql://USER@HOST:5432/DATABASE')
  }),
)

const TYPE =
  'embedded: SQLite, in data_dir. postgresql: a database of PostgreSQL 15 or newer, which needs the package `pg`. With postgresql, data_dir still holds the buffers of pipelines, and the secret that protects the access keys. Several nodes of the service may use one database.'

export const storeOptions = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('embedded').describe(TYPE) }),
  z.strictObject({
    type: z.literal('postgresql').describe(TYPE),
    url: postgresUrl.describe('Address of the database: postgresql://USER@HOST:PORT/DATABASE, without a password.'),
    password_file: filePath().optional().describe('File that holds the password, read again when it changes.'),
    tls: clientTlsOptions
      .optional()
      .describe(
        'Enables TLS; the certificate of the server is always verified. Replaced files are used within a minute.',
      ),
  }),
])

export type StoreOptions = z.output<typeof storeOptions>
export type PostgresOptions = Extract<StoreOptions, { type: 'postgresql' }>
