import { z } from 'zod'
import { filePath } from '../../core/reach.js'

/** Options of a server that speaks TLS. */
export const tlsOptions = z.strictObject({
  cert_file: filePath().describe('Certificate (PEM), with those of the authorities between it and the root.'),
  key_file: filePath().describe('Private key (PEM) of the certificate.'),
  client_ca_file: filePath()
    .optional()
    .describe('Certificates (PEM) of authorities: only clients with a certificate of one of them are let in.'),
})
export type TlsFileOptions = z.output<typeof tlsOptions>
