import type { TlsOptions } from 'node:tls'
import { z } from 'zod'
import { filePath } from '../../core/reach.js'
import type { TlsContent } from '../../core/tls-content.js'

/** Options of a server that speaks TLS. */
export const tlsOptions = z.strictObject({
  cert_file: filePath().describe('Certificate (PEM), with those of the authorities between it and the root.'),
  key_file: filePath().describe('Private key (PEM) of the certificate.'),
  client_ca_file: filePath()
    .optional()
    .describe('Certificates (PEM) of authorities: only clients with a certificate of one of them are let in.'),
})
export type TlsFileOptions = z.output<typeof tlsOptions>

const HANDSHAKE_MS = 10_000

/** What to make a server of. */
export function serverOptions({ ca, cert, key }: TlsContent): TlsOptions {
  const client = ca && { ca, requestCert: true, rejectUnauthorized: true }
  return { cert, key, ...client, minVersion: 'TLSv1.2', handshakeTimeout: HANDSHAKE_MS }
}
