import { readFile, stat } from 'node:fs/promises'
import type { TlsOptions } from 'node:tls'
import type { Logger } from 'pino'
import { z } from 'zod'
import { errorText } from '../../core/errors.js'
import { reaches } from '../../core/reach.js'

/** Options of a server that speaks TLS. */
export const tlsOptions = z.strictObject({
  cert_file: reaches('files', z.string().min(1)).describe(
    'Certificate (PEM), with those of the authorities between it and the root.',
  ),
  key_file: reaches('files', z.string().min(1)).describe('Private key (PEM) of the certificate.'),
  client_ca_file: reaches('files', z.string().min(1))
    .optional()
    .describe('Certificates (PEM) of authorities: only clients with a certificate of one of them are let in.'),
})
export type TlsFileOptions = z.output<typeof tlsOptions>

const HANDSHAKE_MS = 10_000
const FILES = ['cert_file', 'key_file', 'client_ca_file'] as const

/** The files of the TLS options: read at the start, and again when they were renewed. */
export class TlsFiles {
  readonly #options: TlsFileOptions
  readonly #log: Logger
  #version = ''
  #toldUnusable = false

  constructor(options: TlsFileOptions, log: Logger) {
    this.#options = options
    this.#log = log
  }

  /** What to make a server of; throws, in words for people, when a file cannot be used. */
  async load(): Promise<TlsOptions> {
    this.#version = await this.#look()
    const read = async (name: (typeof FILES)[number]) => {
      const path = this.#options[name]
      if (path === undefined) return undefined
      return await readFile(path).catch(cause => {
        throw new Error(`cannot read tls.${name}: ${errorText(cause)}`, { cause })
      })
    }
    const [cert, key, ca] = [await read('cert_file'), await read('key_file'), await read('client_ca_file')]
    const client = ca && { ca, requestCert: true, rejectUnauthorized: true }
    return { cert, key, ...client, minVersion: 'TLSv1.2', handshakeTimeout: HANDSHAKE_MS }
  }

  /** Hands `use` what the files say now, if they changed. A renewal that cannot be used is told once. */
  async renew(use: (options: TlsOptions) => void): Promise<void> {
    try {
      if ((await this.#look()) === this.#version) return
      use(await this.load())
      this.#log.info({ file: this.#options.cert_file }, 'the certificate was renewed')
      this.#toldUnusable = false
    } catch (error) {
      // Certificate and key may be replaced one after the other: look again.
      this.#version = ''
      if (!this.#toldUnusable)
        this.#log.warn({ error: errorText(error) }, 'the renewed certificate cannot be used; the old one stays in use')
      this.#toldUnusable = true
    }
  }

  async #look(): Promise<string> {
    let versions = ''
    for (const name of FILES) {
      const path = this.#options[name]
      if (path === undefined) continue
      const { ino, size, mtimeMs } = await stat(path).catch(cause => {
        throw new Error(`cannot read tls.${name}: ${errorText(cause)}`, { cause })
      })
      versions += `${ino} ${size} ${mtimeMs};`
    }
    return versions
  }
}
