import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import type { Stats } from 'node:fs'
import { errorCode, errorText } from '../core/errors.js'
import { OutOfReach, type Reach, readWithin } from '../core/options/reach.js'
import { readFileSync, statSync } from '../lib/files/disk/disk.js'
import { SilentFileSystem } from '../lib/files/disk/file-systems.js'
import { nodeTls } from '../lib/network/node-tls.js'

export interface TlsPaths {
  /** Authorities to trust. */
  readonly ca_file?: string | undefined
  readonly cert_file?: string | undefined
  readonly key_file?: string | undefined
  readonly client_ca_file?: string | undefined
}

export type TlsOption = keyof TlsPaths
export const TLS_OPTIONS = ['ca_file', 'client_ca_file', 'cert_file', 'key_file'] as const satisfies TlsOption[]

export interface TlsProblem {
  readonly option: TlsOption
  readonly file: string
  /** What is wrong and what to do, without the option and the file. */
  readonly message: string
  /**
   * `absent`: the file does not exist or is not readable, or its file system does not respond. The file may still be
   * usable on another machine or by another user. `denied`: the component must not read the file.
   */
  readonly kind: 'absent' | 'denied' | 'broken' | 'warning'
}

/** When the certificates of a file are valid. */
export interface TlsExpiry {
  readonly option: TlsOption
  readonly file: string
  readonly subject: string
  /** The earliest expiry in a chain, or the latest expiry of several authorities; in milliseconds since 1970. */
  readonly expiresAt: number
  /** When the validity begins; wall clock in milliseconds. */
  readonly validFrom: number
}

export interface TlsContent {
  readonly ca: Buffer | undefined
  readonly cert: Buffer | undefined
  readonly key: Buffer | undefined
  readonly expiries: readonly TlsExpiry[]
}

export interface TlsInspection {
  /** Undefined if a file is unusable. */
  readonly content: TlsContent | undefined
  readonly problems: readonly TlsProblem[]
}

/** Maximum bytes of a file: twenty times a bundle of all public authorities. */
const LONGEST_FILE = 10 * 1024 * 1024
const CERTIFICATE = /-----BEGIN (?:X509 )?CERTIFICATE-----[^-]*-----END (?:X509 )?CERTIFICATE-----/g
const CERTIFICATE_BEGIN = /-----BEGIN (?:X509 )?CERTIFICATE-----/g
const PRIVATE_KEY = /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----/
const DER_SEQUENCE = 0x30

/** The bytes of each file, or why it could not be read. */
type Found = Partial<Record<TlsOption, Buffer | Error>>

/** Reads the files synchronously, for commands. `wall`: the time for which validity is checked. */
export function inspectTls(paths: TlsPaths, wall: number): TlsInspection {
  const found: Found = {}
  for (const option of TLS_OPTIONS) {
    const path = paths[option]
    if (path === undefined) continue
    try {
      const refused = notReadable(statSync(path))
      found[option] = refused ?? readFileSync(path)
    } catch (error) {
      found[option] = error as Error
    }
  }
  return judge(paths, found, wall)
}

/** Like `inspectTls`, but asynchronous, and within `reach`. */
export async function readTls(paths: TlsPaths, wall: number, reach: Reach | undefined): Promise<TlsInspection> {
  const found: Found = {}
  for (const option of TLS_OPTIONS) {
    const path = paths[option]
    if (path === undefined) continue
    found[option] = await readWithin(reach, path, notReadable)
      .then(({ bytes }) => bytes)
      .catch((error: Error) => error)
  }
  return judge(paths, found, wall)
}

/** The file is not a regular file, or is too large. */
class NotReadable extends Error {}

function notReadable(stats: Stats): NotReadable | undefined {
  if (stats.isDirectory()) return new NotReadable('is a folder; name a PEM file')
  if (!stats.isFile()) return new NotReadable('is not a regular file; name a PEM file')
  return stats.size > LONGEST_FILE ? new NotReadable('is too large to be a PEM file') : undefined
}

function judge(paths: TlsPaths, found: Found, wall: number): TlsInspection {
  const inspection = new Inspection(paths, wall)
  const read = (option: TlsOption) => inspection.read(option, found[option])
  const [ca, clientCa, cert, key] = [read('ca_file'), read('client_ca_file'), read('cert_file'), read('key_file')]
  if (ca) inspection.authorities('ca_file', ca)
  if (clientCa) inspection.authorities('client_ca_file', clientCa)
  const chain = cert && inspection.chain(cert)
  const privateKey = key && inspection.privateKey(key)
  if (chain?.[0] && privateKey) inspection.match(chain, privateKey)
  // Without files, the check would only load the default authorities of Node.js.
  if (inspection.usable && Object.keys(found).length > 0) inspection.asWhole({ ca: ca ?? clientCa, cert, key })
  const { problems, expiries } = inspection
  return { problems, content: inspection.usable ? { ca: ca ?? clientCa, cert, key, expiries } : undefined }
}

export function tlsProblemText({ option, file, message }: TlsProblem): string {
  return `tls.${option}: ${file} ${message}`
}

class Inspection {
  readonly problems: TlsProblem[] = []
  readonly expiries: TlsExpiry[] = []
  readonly #paths: TlsPaths
  readonly #wall: number

  constructor(paths: TlsPaths, wall: number) {
    this.#paths = paths
    this.#wall = wall
  }

  get usable(): boolean {
    return this.problems.every(({ kind }) => kind === 'warning')
  }

  #add(option: TlsOption, message: string, kind: TlsProblem['kind'] = 'broken'): void {
    this.problems.push({ option, file: this.#paths[option]!, message, kind })
  }

  /** The bytes of the file; undefined if the option is not set or the file is unusable. */
  read(option: TlsOption, found: Buffer | Error | undefined): Buffer | undefined {
    if (Buffer.isBuffer(found)) {
      const problem = notPem(found)
      if (problem === undefined) return found
      this.#add(option, problem)
    } else if (found instanceof NotReadable) this.#add(option, found.message)
    else if (found instanceof OutOfReach) this.#add(option, `cannot be read: ${found.message}`, 'denied')
    else if (found) {
      const words = fileWords(errorCode(found))
      const isBroken = words === undefined && !(found instanceof SilentFileSystem)
      this.#add(option, `cannot be read: ${words ?? found.message}`, isBroken ? 'broken' : 'absent')
    }
    return undefined
  }

  /** The certificates of a file; undefined if they are unusable. */
  #certificates(option: TlsOption, bytes: Buffer): X509Certificate[] | undefined {
    const text = bytes.toString('latin1')
    const blocks = text.match(CERTIFICATE) ?? []
    const begun = text.match(CERTIFICATE_BEGIN)?.length ?? 0
    if (begun === 0) {
      const instead = PRIVATE_KEY.test(text)
        ? 'holds a private key and no certificate; are cert_file and key_file swapped?'
        : text.includes('CERTIFICATE REQUEST-----')
          ? 'holds a request for a certificate; name the certificate that the authority made from it'
          : 'holds no PEM block "-----BEGIN CERTIFICATE-----"'
      this.#add(option, instead)
      return undefined
    }
    if (begun !== blocks.length) {
      this.#add(option, 'is cut off: a certificate in it has no END line; copy the file again')
      return undefined
    }
    const certificates: X509Certificate[] = []
    for (const [i, block] of blocks.entries()) {
      try {
        certificates.push(new X509Certificate(block))
      } catch {
        const which = blocks.length === 1 ? 'a damaged certificate' : `certificates, and number ${i + 1} is damaged`
        this.#add(option, `holds ${which}; copy the file again`)
        return undefined
      }
    }
    return certificates
  }

  authorities(option: 'ca_file' | 'client_ca_file', bytes: Buffer): void {
    const certificates = this.#certificates(option, bytes)
    if (!certificates) return
    // A self-signed certificate may be trusted itself. Any other certificate must belong to an authority.
    const trusted = certificates.filter(one => one.ca || one.subject === one.issuer)
    if (trusted.length === 0) {
      const [first] = certificates
      const text = `holds no certificate of an authority: ${nameOf(first!)} is not a CA; use the certificate of its issuer, ${commonName(first!.issuer)}`
      this.#add(option, text)
      return
    }
    this.#judgeTime(
      option,
      trusted,
      trusted.map(validityOf).reduce((a, b) => (a.expiresAt > b.expiresAt ? a : b)),
    )
  }

  chain(bytes: Buffer): X509Certificate[] | undefined {
    const certificates = this.#certificates('cert_file', bytes)
    if (certificates)
      this.#judgeTime(
        'cert_file',
        certificates,
        certificates.map(validityOf).reduce((a, b) => (a.expiresAt < b.expiresAt ? a : b)),
      )
    return certificates
  }

  #judgeTime(option: TlsOption, certificates: readonly X509Certificate[], validity: Validity): void {
    const { subject, expiresAt } = validity
    this.expiries.push({ option, file: this.#paths[option]!, ...validity })
    if (expiresAt <= this.#wall)
      this.#add(option, `has expired: ${subject} was valid until ${dateOf(expiresAt)}; renew it`, 'warning')
    const { validFrom } = validityOf(certificates[0]!)
    if (validFrom <= this.#wall) return
    const text = `is not valid yet: ${nameOf(certificates[0]!)} is valid from ${dateOf(validFrom)}; is the clock right?`
    this.#add(option, text, 'warning')
  }

  privateKey(bytes: Buffer): KeyObject | undefined {
    const text = bytes.toString('latin1')
    if (!PRIVATE_KEY.test(text)) {
      const instead = CERTIFICATE_BEGIN.test(text)
        ? 'holds a certificate and no private key; are cert_file and key_file swapped?'
        : 'holds no PEM block "-----BEGIN PRIVATE KEY-----"'
      CERTIFICATE_BEGIN.lastIndex = 0
      this.#add('key_file', instead)
      return undefined
    }
    if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
      this.#add('key_file', 'holds a key with a passphrase, which nobody can type here; decrypt it with "openssl pkey"')
      return undefined
    }
    try {
      return createPrivateKey(bytes)
    } catch {
      this.#add('key_file', 'holds a private key that is damaged; copy the file again')
      return undefined
    }
  }

  match(chain: readonly X509Certificate[], key: KeyObject): void {
    if (chain[0]!.checkPrivateKey(key)) return
    const other = chain.find(certificate => certificate.checkPrivateKey(key))
    const { cert_file } = this.#paths
    if (other)
      this.#add('cert_file', `is in the wrong order: ${nameOf(other)}, which the key belongs to, has to come first`)
    else
      this.#add(
        'key_file',
        `does not belong to the certificate in ${cert_file} (${nameOf(chain[0]!)}); name the key that the certificate was made for`,
      )
  }

  /** Lets OpenSSL check everything else, for example whether a key is too short for OpenSSL's security level. */
  asWhole({ ca, cert, key }: { readonly [name in 'ca' | 'cert' | 'key']: Buffer | undefined }): void {
    try {
      nodeTls().createSecureContext({ ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) })
    } catch (error) {
      const option = cert ? 'cert_file' : this.#paths.ca_file ? 'ca_file' : 'client_ca_file'
      this.#add(option, `is refused by OpenSSL: ${opensslText(error)}`)
    }
  }
}

function notPem(bytes: Buffer): string | undefined {
  if (bytes.toString('latin1').trim() === '') return 'is empty; put the PEM text in it'
  if (bytes[0] === DER_SEQUENCE)
    return 'is not PEM but DER; convert it with "openssl x509 -inform der" or "openssl pkey -inform der"'
  return undefined
}

function fileWords(code: string | undefined): string | undefined {
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'the file does not exist (ENOENT)'
  if (code === 'EACCES' || code === 'EPERM') return `this user may not read it (${code})`
  return undefined
}

type Validity = Pick<TlsExpiry, 'subject' | 'expiresAt' | 'validFrom'>

function validityOf(certificate: X509Certificate): Validity {
  const { validFrom, validTo } = certificate
  return { subject: nameOf(certificate), expiresAt: Date.parse(validTo), validFrom: Date.parse(validFrom) }
}

function nameOf({ subject, serialNumber }: X509Certificate): string {
  return commonName(subject) ?? `serial ${serialNumber}`
}

function commonName(name: string | undefined): string | undefined {
  return /^CN=(.*)$/m.exec(name ?? '')?.[1] ?? (name || undefined)?.replaceAll('\n', ', ')
}

function dateOf(wall: number): string {
  return new Date(wall).toISOString().slice(0, 10)
}

/**
 * The reason that a peer gave for closing a TLS connection: `UNKNOWN_CA` in `ERR_SSL_TLSV1_ALERT_UNKNOWN_CA`. Undefined
 * if the error does not come from the peer. Newer versions of OpenSSL write `SSL/TLS_ALERT`.
 */
export function tlsAlertOf(code: string): string | undefined {
  if (code === 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME') return 'UNRECOGNIZED_NAME'
  return /^ERR_SSL_.*ALERT_([A-Z_]+)$/.exec(code)?.[1]
}

/** The reason in an OpenSSL error, without the location in OpenSSL's source. */
export function opensslText(error: unknown): string {
  const { reason } = error as { readonly reason?: unknown }
  return typeof reason === 'string' && reason !== '' ? reason : errorText(error)
}
