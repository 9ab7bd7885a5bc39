import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HOST } from './address.js'

export interface Certificates {
  /** The path of NAME.pem, NAME.key; `ca` is the authority of all. */
  path(name: string): string
  pem(name: string): Buffer
  /** Makes a certificate for localhost, 127.0.0.1 and HOST, in place of the one of that name. */
  make(name: string): void
}

/** Certificates by an authority of their own, in `folder`. */
export function makeCertificates(openssl: string, folder: string, names: readonly string[]): Certificates {
  const path = (name: string) => join(folder, name)
  const run = (...args: string[]) => execFileSync(openssl, args, { cwd: folder, stdio: 'pipe' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const sign = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'san.cnf']
  writeFileSync(path('san.cnf'), `subjectAltName=DNS:localhost,IP:127.0.0.1,IP:${HOST}\n`)
  run('req', '-x509', ...key, '-subj', '/CN=Test CA', '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2')
  const make = (name: string) => {
    run('req', ...key, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`)
    run('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, ...sign)
  }
  names.forEach(make)
  return { path, pem: name => readFileSync(path(name)), make }
}
