import { z } from 'zod'
import { duration, refuse } from '../core/options/options.js'
import { filePath, reaches } from '../core/options/reach.js'
import { proxy } from './proxy.js'

export const clientTlsOptions = z
  .strictObject({
    ca_file: filePath()
      .optional()
      .describe('Certificates (PEM) of the authorities to trust, instead of the default ones.'),
    server_name: reaches('nothing', z.string().min(1))
      .optional()
      .describe("The name that the receiver's certificate must have, if it differs from the URL."),
    cert_file: filePath().optional().describe('Client certificate (PEM), for receivers that ask for one.'),
    key_file: filePath().optional().describe('Private key (PEM) of the client certificate.'),
  })
  .superRefine((tls, context) => {
    if ((tls.cert_file === undefined) !== (tls.key_file === undefined)) {
      refuse(context, 'cert_file and key_file belong together: give both or neither')
    }
  })

/** Options of every destination that connects to a receiver. Other components use some of them. */
export const dialOptions = {
  connect_timeout: duration()
    .refine(ms => ms <= 3_600_000, { error: 'must be at most 1 Hours', params: { constant: true } })
    .prefault('10 Seconds')
    .describe('Time limit for connecting, within `timeout`.'),
  proxy: proxy
    .optional()
    .describe(
      'A proxy between this machine and the receiver. environment: none if NO_PROXY lists the host; otherwise HTTPS_PROXY or HTTP_PROXY, or else ALL_PROXY. Without this option, these variables are ignored.',
    ),
  tls: clientTlsOptions
    .prefault({})
    .describe('TLS options for https. Certificates are always verified. Replaced files are used without a restart.'),
}

export type DialOptions = z.output<z.ZodObject<typeof dialOptions>>
