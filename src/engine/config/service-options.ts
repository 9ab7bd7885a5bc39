import { z } from 'zod'
import { byteSize, duration, listenAddress, refuse, refuseAt } from '../../core/options/options.js'
import { absolutePath, filePath } from '../../core/options/reach.js'
import { parseRule } from '../../lib/network/address-rules.js'
import { addressRange, connectionOptions, serverTlsOptions } from '../../net/listen-options.js'
import { redisOptions } from '../../net/redis/options.js'
import { storeOptions } from './store-options.js'

const addressRule = z.string().superRefine((text, context) => {
  if (!parseRule(text))
    refuse(context, 'must be an address or a range, with or without a port, as in 10.1.0.0/16 or 127.0.0.1:9000', true)
})

const limits = z.strictObject({
  failed_tries: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(120)
    .describe(
      'Maximum requests with an invalid key, per address and minute; further requests with an invalid key get status 429.',
    ),
  requests: z
    .int()
    .min(1)
    .max(1_000_000_000)
    .default(60_000)
    .describe('Maximum requests per key and minute; further requests get status 429 with Retry-After.'),
  redis: redisOptions
    .optional()
    .describe(
      'Redis or Valkey server through which the nodes of a service share all rate limits. Without this option, or while the server does not reply, each node allows the limit divided by the number of nodes.',
    ),
})

const ingest = z.strictObject({
  max_body: byteSize(1024, 256 * 1024 * 1024)
    .prefault('10MiB')
    .describe('Largest body of events, both as received and as decompressed.'),
  max_unsettled: byteSize(1024)
    .prefault('32MiB')
    .describe(
      'Memory for all unanswered requests of one pipeline. All pipelines together may use eight times as much, and each account at most three quarters of what the others leave. Requests beyond a limit get status 503 with Retry-After.',
    ),
  max_processes: z
    .int()
    .min(1)
    .max(10_000)
    .default(20)
    .describe(
      'Maximum number of accounts whose pipelines run at the same time, each in its own process of 70 to 85 MB without load. The processes of idle accounts end to make room for others. If all accounts are busy, further clients get status 503 with Retry-After.',
    ),
  max_memory_per_account: byteSize(256 * 1024 * 1024)
    .prefault('1GiB')
    .describe(
      'Memory limit for the process of an account. Above half of it, the service ends pipelines that were idle for 5 minutes. The service ends a process above the limit: its requests get status 503, and the next request starts it again. Other accounts are not affected.',
    ),
  process_timeout: duration(500)
    .prefault('10 Seconds')
    .describe(
      'Time limit for one piece of work in the process of an account. The service ends a process that exceeds this limit or uses too much memory.',
    ),
  max_disk_per_account: byteSize(1_000_000)
    .prefault('1GB')
    .describe(
      'Disk space for all pipelines of one account. Beyond it, destinations wait, events are not acknowledged, senders get status 503, and new revisions get status 409. One sixteenth, at most 16 MiB, is reserved for revisions.',
    ),
  allow_files: z
    .array(absolutePath())
    .default([])
    .describe(
      'Files of this machine (file destinations, key files, certificates) that pipelines of all accounts may use, as absolute paths or patterns such as /srv/sluice/**. Symbolic links are resolved first, so specify their targets. Files in data_dir are always denied.',
    ),
  allow_urls: z
    .array(z.url())
    .optional()
    .describe(
      'Prefixes of the URLs that pipelines may send to. These URLs may resolve to any address, including private networks. Default: all URLs with addresses that `allow_addresses` permits.',
    ),
  allow_addresses: z
    .array(addressRule)
    .default([])
    .describe(
      'Addresses that are not public, but that pipelines may send to, as in 10.1.0.0/16, 127.0.0.1:9000 or [fd00::/8]:443. Default: only public addresses of other machines. To allow a port that the service itself listens on, an entry must name this port.',
    ),
})

const options = z.strictObject({
  listen: listenAddress()
    .prefault('127.0.0.1:8080')
    .describe('HOST:PORT of the API, or systemd:NAME, the socket of a .socket unit with FileDescriptorName=NAME.'),
  data_dir: filePath()
    .optional()
    .describe(
      'Folder of the store, relative to the current directory. Default: `service` in $STATE_DIRECTORY if systemd sets it, or in the state folder of the user; otherwise ./service-state. Only one service at a time can use it. Other users must not be able to write to it.',
    ),
  store: storeOptions
    .prefault({ type: 'embedded' })
    .describe('Where accounts, keys, pipelines, secrets and the audit log are stored.'),
  tls: serverTlsOptions.optional().describe('Enables TLS. Replaced files are used within a minute.'),
  trusted_proxies: z
    .array(addressRange())
    .default([])
    .describe(
      'Addresses and ranges of proxies in front of the service. Their X-Forwarded-For header determines the address of the client, which is used to limit failed attempts. max_connections_per_address does not apply to them.',
    ),
  max_body: byteSize(1024, 64 * 1024 * 1024)
    .prefault('1MB')
    .describe('Largest body of a request, except for ingest.'),
  ...connectionOptions(10_000, 1_000_000),
  handshake_timeout: duration().prefault('10 Seconds').describe('Time limit of the TLS handshake.'),
  headers_timeout: duration(100).prefault('10 Seconds').describe('Time limit for receiving the headers of a request.'),
  request_timeout: duration(100).prefault('60 Seconds').describe('Time limit for receiving a complete request.'),
  keep_alive_timeout: duration(100)
    .prefault('65 Seconds')
    .describe('How long a connection without a request stays open.'),
  send_timeout: duration(100)
    .prefault('60 Seconds')
    .describe('How long a client may take to read a response. After that, its connection is closed.'),
  plugins: z
    .array(filePath())
    .default([])
    .describe(
      'Plugins with components and codecs that the published pipelines may use, as in `plugins` of a configuration. They are loaded when the service starts. They run in the process of each account, with all rights of this process. A pipeline cannot list plugins itself.',
    ),
  ingest: ingest
    .prefault({})
    .describe('Options of the published pipelines that the service runs to process the events sent to it.'),
  limits: limits.prefault({}).describe('Limits for a single client.'),
  request_log: z
    .boolean()
    .default(false)
    .describe(
      'Logs each request on standard error with its id, account, route, status and duration. Keys, bodies and queries are never logged.',
    ),
})

export const serviceOptions = options.superRefine(({ store, limits }, context) => {
  if (limits.redis && store.type === 'embedded')
    refuseAt(
      context,
      ['limits', 'redis'],
      'has no effect with one node; several nodes need store: { type: postgresql, … }',
    )
})

export type ServiceOptions = z.output<typeof serviceOptions>
