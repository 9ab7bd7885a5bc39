import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The name in the certificates; addresses change from run to run. */
export const SERVER_NAME = 'receiver.test'

interface Certificate {
  readonly cert: Buffer
  readonly key: Buffer
}

export interface Certificates {
  /** What a daemon that trusts `authority` accepts, and what it does not. */
  readonly good: Certificate
  readonly bad: Certificate
  /** The path of the certificate to trust. */
  readonly authority: string
}

/** Makes certificates in `folder`; undefined where there is no openssl. */
export function makeCertificates(folder: string): Certificates | undefined {
  const dir = mkdtempSync(join(folder, 'certificates-'))
  const make = (name: string): Certificate => {
    const [cert, key] = [join(dir, `${name}.pem`), join(dir, `${name}.key`)]
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    const names = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${SERVER_NAME}`]
    execFileSync('openssl', ['req', '-x509', ...curve, ...names, '-days', '2', '-keyout', key, '-out', cert], {
      stdio: 'pipe',
    })
    return { cert: readFileSync(cert), key: readFileSync(key) }
  }
  try {
    return { good: make('good'), bad: make('bad'), authority: join(dir, 'good.pem') }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
