import { z } from 'zod'
import { duration, once, refuse, refuseAt, secret } from '../../core/options/options.js'
import { filePath, reaches } from '../../core/options/reach.js'

/** A redis or rediss URL that cannot contain secrets. */
const redisUrl = once(() => {
  const schema = z.string().superRefine((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    if ((url?.protocol !== 'redis:' && url?.protocol !== 'rediss:') || url.hostname === '') {
      refuse(context, 'must be a whole address that begins with redis:// or, for TLS, rediss://')
    } else if (url.username || url.password) {
      refuse(context, 'must not hold a user name or password; use "username" and "password_file"')
    } else if (url.search || url.hash) refuse(context, 'must not have a part after "?" or "#"')
    else if (!/^(\/\d*)?$/.test(url.pathname))
      refuse(context, 'must end with the port or the number of a database, as in redis://redis:6379/0')
  })
  return reaches('urls', schema)
})

const credential = () =>
  reaches(
    'credentials',
    z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]*$/, { error: 'must be the name of a systemd credential' }),
  )

/** Options for connecting to a Redis or Valkey server. Each component adds `timeout` with its own default. */
export const serverOptions = {
  url: redisUrl().describe('Address of the server: redis://HOST:PORT, or rediss://HOST:PORT with TLS.'),
  nodes: z
    .array(redisUrl())
    .prefault([])
    .describe(
      'With `sentinel` or `cluster`: addresses of further nodes, asked when the node in `url` does not answer.',
    ),
  username: reaches('nothing', z.string().min(1)).optional().describe('ACL user. Default: the default user.'),
  password: secret()
    .optional()
    .describe('The password itself. Prefer an environment variable, as in ${REDIS_PASSWORD}.'),
  password_file: filePath().optional().describe('File that holds the password, read again at each connection.'),
  credential: credential()
    .optional()
    .describe('Name of a systemd credential (LoadCredential=) that holds the password.'),
  ca_file: filePath()
    .optional()
    .describe('With rediss: certificates (PEM) of the authorities to trust, instead of the default ones.'),
  cert_file: filePath().optional().describe('With rediss: client certificate (PEM).'),
  key_file: filePath().optional().describe('With rediss: private key (PEM) of the client certificate.'),
  server_name: reaches('nothing', z.string().min(1))
    .optional()
    .describe("With rediss: the name that the server's certificate must have, if it differs from the URL."),
  sentinel: z
    .strictObject({
      name: reaches('nothing', z.string().min(1)).describe('Name of the primary, as the Sentinels know it.'),
    })
    .optional()
    .describe('Name of the primary to use; `url` and `nodes` are Sentinels.'),
  cluster: z.boolean().prefault(false).describe('`url` and `nodes` belong to a Redis Cluster.'),
}

export const replyTimeout = () =>
  duration().refine(ms => ms <= 60_000, { error: 'must be at most 1 Minutes', params: { constant: true } })

export type RedisOptions = z.output<z.ZodObject<typeof serverOptions>>

export function checkServer(redis: RedisOptions, context: z.RefinementCtx): void {
  const given = (['password', 'password_file', 'credential'] as const).filter(name => redis[name] !== undefined)
  if (given.length > 1)
    refuse(context, `takes one of password, password_file and credential; ${given.join(' and ')} given`)
  if (redis.username !== undefined && given.length === 0)
    refuseAt(context, ['username'], 'needs a password; give password_file, credential or password')
  if (redis.sentinel && redis.cluster)
    refuseAt(context, ['cluster'], 'cannot be combined with sentinel; use one of them')
  if (redis.nodes.length > 0 && !redis.sentinel && !redis.cluster)
    refuseAt(context, ['nodes'], 'has no effect without sentinel or cluster')
  const first = redis.url.split(':', 1)[0]
  if (redis.nodes.some(url => url.split(':', 1)[0] !== first))
    refuseAt(context, ['nodes'], 'must begin with the same redis:// or rediss:// as url')
  if ((redis.cert_file === undefined) !== (redis.key_file === undefined))
    refuse(context, 'cert_file and key_file belong together: give both or neither')
  for (const name of ['ca_file', 'cert_file', 'key_file', 'server_name'] as const)
    if (first === 'redis' && redis[name] !== undefined)
      refuseAt(context, [name], 'has no effect without TLS; write rediss:// in url')
  if (redis.cluster && /\/[1-9]\d*$/.test(redis.url.replace(/^rediss?:\/\//, '')))
    refuseAt(context, ['url'], 'must not name a database: a Redis Cluster has only database 0')
}

/** Options of a server that components query while they process events. */
export const redisOptions = z
  .strictObject({
    ...serverOptions,
    timeout: replyTimeout()
      .prefault('250 Milliseconds')
      .describe('Time limit for a reply. After that, the server counts as failed until it replies in time again.'),
  })
  .superRefine(checkServer)
