import { z } from 'zod'
import { byteSize, duration, listenAddress, refuse } from '../core/options/options.js'
import { filePath } from '../core/options/reach.js'
import { addressRange, connectionOptions } from '../http/server/addresses.js'
import { tlsOptions } from '../http/server/server-tls.js'
import { parseRule } from '../lib/network/address-rules.js'

/** The section `service` of a configuration: the options of the service. */

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
    .describe('Requests with a wrong key that an address may make in a minute; then it has to wait (429).'),
  requests: z
    .int()
    .min(1)
    .max(1_000_000_000)
    .default(60_000)
    .describe('Requests that may be made with one key in a minute; then they are answered with 429 and Retry-After.'),
})

const ingest = z.strictObject({
  max_body: byteSize(1024, 256 * 1024 * 1024)
    .prefault('10MiB')
    .describe('Largest body of events, as it comes and as it is when it is inflated.'),
  max_unsettled: byteSize(1024)
    .prefault('32MiB')
    .describe(
      'Memory that the requests of one pipeline which are not answered yet may hold together; all together may hold eight times as much, those of one account at most three times what is left of it. Beyond it they are answered 503 with Retry-After.',
    ),
  max_pipelines: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .describe(
      'Pipelines that run in the service at the same time, shared out among the accounts that use them. One that is idle makes room for another, and so does one that nobody waits for: what is in its disk buffers is delivered when its turn comes again. Where that is not enough, an account that runs more than another one gives up a pipeline for it; its clients are answered 503 with Retry-After.',
    ),
  max_processes: z
    .int()
    .min(1)
    .max(10_000)
    .default(20)
    .describe(
      'Accounts whose pipelines run at the same time: each has a process of its own, which takes 60 to 80 MB without load. An account whose pipelines are idle, or that nobody waits for, makes room for another; where none can, clients are answered 503 with Retry-After.',
    ),
  max_memory_per_account: byteSize(128 * 1024 * 1024)
    .prefault('1GiB')
    .describe(
      'Memory that the process of an account may take. One that takes more is ended: its requests are answered 503, other accounts notice nothing, and it starts again with the next request.',
    ),
  process_timeout: duration(500)
    .prefault('10 Seconds')
    .describe(
      'A process of an account that does nothing else for so long than one piece of work is ended, as one that takes too much memory is.',
    ),
  max_disk_per_account: byteSize(1_000_000)
    .prefault('1GB')
    .describe(
      'Bytes that the disk buffers, dead letters, idempotency keys and saved revisions of all pipelines of one account may take together. Beyond it their destinations wait: events are not acknowledged, senders are answered 503, and revisions are refused with 409. All of it is removed with its pipeline. A sixteenth, 16 MiB at most, is kept for revisions.',
    ),
  allow_files: z
    .array(filePath())
    .default([])
    .describe(
      'Files of this machine that pipelines may use, as absolute paths or patterns such as /srv/sluice/**: what file destinations write to, key files and certificates. Symbolic links are resolved first, so name where a link leads. Files in data_dir are always refused. Every account can use all of these files.',
    ),
  allow_urls: z
    .array(z.url())
    .optional()
    .describe(
      'What the URLs that pipelines send to must begin with. These may lead to any address, also in a private network. Without it: every URL whose address `allow_addresses` does not exclude.',
    ),
  allow_addresses: z
    .array(addressRule)
    .default([])
    .describe(
      'Addresses that pipelines may send to although they are not public, as in 10.1.0.0/16, 127.0.0.1:9000 or [fd00::/8]:443. By default loopback, private, link-local, multicast and reserved addresses are refused, and all addresses of this machine. The address is checked at each connection. A port where the service itself listens is only reached by an entry with that port.',
    ),
})

export const serviceOptions = z.strictObject({
  listen: listenAddress()
    .prefault('127.0.0.1:8080')
    .describe('HOST:PORT of the API, or systemd:NAME, the socket of a .socket unit with FileDescriptorName=NAME.'),
  data_dir: filePath()
    .optional()
    .describe(
      'Folder of the store, relative to the current directory. Without it: `service` in $STATE_DIRECTORY where systemd sets it, else ./service-state. One process at a time may use it.',
    ),
  tls: tlsOptions.optional().describe('Speaks TLS. Renewed files are read again within a minute.'),
  trusted_proxies: z
    .array(addressRange())
    .default([])
    .describe(
      'Addresses and ranges of proxies in front of the service. What they say in X-Forwarded-For is taken for the address of the client; it counts where failed tries are limited. max_connections_per_address is not for them.',
    ),
  max_body: byteSize(1024, 64 * 1024 * 1024)
    .prefault('1MB')
    .describe('Largest body of a request, that of ingest excepted.'),
  ...connectionOptions(10_000, 1_000_000),
  handshake_timeout: duration().prefault('10 Seconds').describe('Time for the handshake of TLS.'),
  headers_timeout: duration(100).prefault('10 Seconds').describe('How long the headers of a request may take.'),
  request_timeout: duration(100).prefault('60 Seconds').describe('How long a request may take to arrive whole.'),
  keep_alive_timeout: duration(100)
    .prefault('65 Seconds')
    .describe('How long a connection without a request stays open.'),
  send_timeout: duration(100)
    .prefault('60 Seconds')
    .describe('How long a client may take to read a response. After that, its connection is closed.'),
  ingest: ingest.prefault({}).describe('The published pipelines that run in the service for the events sent to it.'),
  limits: limits.prefault({}).describe('How much one client may do.'),
  request_log: z
    .boolean()
    .default(false)
    .describe(
      'Logs each request as a line on standard error, with its id, account, route, status and time. Keys, bodies and queries are never logged.',
    ),
})

export type ServiceOptions = z.output<typeof serviceOptions>
