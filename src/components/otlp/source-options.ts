import { z } from 'zod'
import type { OptionProblem } from '../../core/component.js'
import { byteSize, duration, refuse, refuseAt } from '../../core/options/options.js'
import { auth, exposedWarnings } from '../../net/key.js'
import { isLocal, listenOptions } from '../../net/listen-options.js'

const { listen, ...shared } = listenOptions

const server = (port: number) =>
  z
    .strictObject({ listen: listen.describe(`HOST:PORT to listen on, usually port ${port}, or systemd:NAME.`) })
    .optional()

export const otlpSourceOptions = z
  .strictObject({
    http: server(4318).describe('Receives OTLP over HTTP, at the path `/v1/logs`.'),
    grpc: server(4317).describe('Receives OTLP over gRPC.'),
    ...shared,
    auth: auth.prefault({ type: 'none' }).describe('The key that requests must contain.'),
    max_bytes: byteSize(1024, 256 * 1024 * 1024)
      .prefault('64MiB')
      .describe(
        'Maximum size of a request, both before and after decompression. A request in JSON has at most 16 MiB.',
      ),
    max_unsettled_bytes: byteSize(1024)
      .prefault('128MiB')
      .describe(
        'Maximum memory of all unanswered requests together. Further requests are answered with 429 or RESOURCE_EXHAUSTED. One address may use at most three quarters of it.',
      ),
    max_line_bytes: byteSize(1024, 256 * 1024 * 1024)
      .prefault('1MiB')
      .describe('Maximum size of a record as JSON. Larger records are refused.'),
    request_timeout: duration().prefault('60 Seconds').describe('Timeout for a complete request, including its body.'),
    idle_timeout: duration()
      .prefault('5 Minutes')
      .describe('Closes connections without a request for this long. Clients connect again.'),
  })
  .superRefine(({ http, grpc, auth, max_bytes, max_unsettled_bytes }, context) => {
    if (!http && !grpc) refuse(context, 'requires "http" or "grpc", for example http: { listen: 127.0.0.1:4318 }')
    if (auth.exec) refuseAt(context, ['auth', 'exec'], 'has no use in a source; write the key to a key_file')
    if (max_bytes > max_unsettled_bytes) refuseAt(context, ['max_bytes'], 'must not be more than max_unsettled_bytes')
  })

export type OtlpSourceOptions = z.output<typeof otlpSourceOptions>

export function exposureWarnings({ http, grpc, auth, tls }: OtlpSourceOptions): OptionProblem[] {
  const open = Object.entries({ http, grpc }).filter(([, server]) => server && !isLocal(server.listen))
  return open.flatMap(([name]) => exposedWarnings([name, 'listen'], auth, tls))
}
