import type { Server, Socket } from 'node:net'
import type { TlsOptions, Server as TlsServer } from 'node:tls'
import { every } from '../../../lib/time.js'
import type { TlsContent } from '../../tls/tls-content.js'
import { TlsFiles, type TlsFilesContext } from '../../tls/tls-files.js'
import type { TlsFileOptions } from './listen-options.js'
import { TlsRefusals } from './tls-refusals.js'

/** The longest timer of Node.js. `Connections` ends handshakes that take longer than `handshake_timeout`. */
const NEVER_MS = 2 ** 31 - 1
const RENEW_MS = 60_000

/** The certificate of a server, read again when it is replaced, and a report of failed handshakes. */
export class ServerTls {
  readonly files: TlsFiles
  readonly refusals: TlsRefusals

  constructor(paths: TlsFileOptions, context: TlsFilesContext) {
    this.files = new TlsFiles(paths, context)
    this.refusals = new TlsRefusals(context.log, context.clock)
  }

  /** The TLS options to create the server with. Throws TlsFilesError if a file is unusable. */
  async load(): Promise<TlsOptions> {
    return serverOptions(await this.files.load())
  }

  /** Observes the handshakes of `server` and applies replaced files. Returns a function that stops applying them. */
  attach(server: Server, refused: (reason: string) => void = () => {}, renewEveryMs = RENEW_MS): () => void {
    // Reading the address caches it, which keeps it for the log after the connection is closed.
    server.on('connection', (socket: Socket) => void socket.remoteAddress)
    server.prependListener('tlsClientError', (error: Error, socket: Socket) => {
      refused(this.refusals.add(error, socket))
      socket.destroy()
    })
    // One check at a time: what an older one has read must not replace what a newer one has applied.
    let renewing = false
    return every(renewEveryMs, () => {
      if (renewing) return
      renewing = true
      void this.#renew(server as TlsServer).finally(() => {
        renewing = false
      })
    })
  }

  async #renew(server: TlsServer): Promise<void> {
    const content = await this.files.renewed()
    if (content) server.setSecureContext(serverOptions(content))
  }
}

function serverOptions({ ca, cert, key }: TlsContent): TlsOptions {
  const client = ca && { ca, requestCert: true, rejectUnauthorized: true }
  return { cert, key, ...client, minVersion: 'TLSv1.2', handshakeTimeout: NEVER_MS }
}
