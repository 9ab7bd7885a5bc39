import { z } from 'zod'
import { decodeOption, maxLineBytesOption } from '../../core/codecs/options.js'
import { checkDelimited } from '../../core/options/multiline-options.js'
import { duration, refuseAt } from '../../core/options/options.js'
import { listenOptions } from '../../net/listen-options.js'

export const tcpOptions = z
  .strictObject({
    ...listenOptions,
    framing: z
      .enum(['newline', 'octet_counted', 'auto'])
      .optional()
      .describe(
        'How messages are delimited. newline: by line ends, or null bytes with `decode: gelf`. octet_counted: by a length prefix (RFC 6587). auto: detected from the first bytes of each connection. Default: auto with `decode: syslog`, otherwise newline.',
      ),
    decode: decodeOption(),
    max_line_bytes: maxLineBytesOption('message'),
    idle_timeout: duration()
      .optional()
      .describe(
        'Closes connections that have been idle for this long. Default: never, because many senders are idle for hours. Peers that disappear without closing the connection are detected in any case.',
      ),
  })
  .superRefine(({ framing, decode }, context) => {
    checkDelimited(decode, context)
    if (framing === undefined || !decode.framing) return
    refuseAt(context, ['framing'], `cannot be used with decode: ${decode.name}, which defines where a record ends`)
  })
export type TcpSourceOptions = z.output<typeof tcpOptions>
