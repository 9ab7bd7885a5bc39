import { z } from 'zod'
import { codecOption, maxLineBytesOption } from '../../core/codecs/options.js'
import type { OptionProblem } from '../../core/component.js'
import { byteSize, duration, refuseAt } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { auth, exposedWarnings } from '../../net/key.js'
import { isLocal, listenOptions } from '../../net/listen-options.js'

export const httpOptions = z
  .strictObject({
    ...listenOptions,
    path: reaches(
      'nothing',
      z
        .string()
        .regex(/^\/[\x21-\x7e]*$/, { error: 'must begin with a slash' })
        .refine(path => !/[?#]/.test(path), { error: 'must be a path without "?" and "#"' }),
    )
      .default('/')
      .describe('The path of requests.'),
    auth: auth.prefault({ type: 'none' }).describe('The key that requests must contain.'),
    decode: codecOption()
      .optional()
      .describe(
        'The codec for bodies of the type `text/plain`. It also decodes bodies of its own media type, such as `text/csv`. Lines that it cannot decode are kept as text and counted. Default: text.',
      ),
    max_body_bytes: byteSize(1024, 256 * 1024 * 1024)
      .prefault('10MiB')
      .describe('Maximum size of a body, both before and after decompression.'),
    max_unsettled_bytes: byteSize(1024)
      .prefault('32MiB')
      .describe(
        'Maximum memory of all unanswered requests together. When this memory is used up, or when `max_connections` requests are unanswered, further requests get the response 503. One address may use at most three quarters of the memory, and have at most `max_connections_per_address` unanswered requests; see `shared_addresses`.',
      ),
    max_line_bytes: maxLineBytesOption(),
    headers_timeout: duration().prefault('10 Seconds').describe('Timeout for the headers of a request.'),
    request_timeout: duration().prefault('60 Seconds').describe('Timeout for a complete request, including its body.'),
    keep_alive_timeout: duration()
      .prefault('75 Seconds')
      .describe('How long a connection may be idle between requests.'),
    send_timeout: duration()
      .prefault('60 Seconds')
      .describe('How long a client may take to read a response. After that, its connection is closed.'),
  })
  .superRefine(({ auth, max_body_bytes, max_unsettled_bytes, headers_timeout, request_timeout }, context) => {
    // A source would run the `exec` program only once, so the source would never get a new key.
    if (auth.exec) refuseAt(context, ['auth', 'exec'], 'has no use in a source; write the key to a key_file')
    if (max_body_bytes > max_unsettled_bytes)
      refuseAt(context, ['max_body_bytes'], 'must not be more than max_unsettled_bytes')
    if (headers_timeout > request_timeout)
      refuseAt(context, ['headers_timeout'], 'must not be more than request_timeout')
  })

export type HttpSourceOptions = z.output<typeof httpOptions>

export const listenWarnings = ({ listen, auth, tls }: HttpSourceOptions): OptionProblem[] =>
  isLocal(listen) ? [] : exposedWarnings(['listen'], auth, tls)
