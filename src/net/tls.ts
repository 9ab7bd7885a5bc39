import { stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import { errorText } from '../core/errors.js'
import type { Fact } from '../core/fact.js'
import type { Reach } from '../core/options/reach.js'
import { fileSystems } from '../lib/files/disk/file-systems.js'
import type { Clock } from '../lib/time.js'
import {
  readTls,
  TLS_OPTIONS,
  type TlsContent,
  type TlsExpiry,
  type TlsPaths,
  type TlsProblem,
  tlsProblemText,
} from './tls-check.js'

const DAY_MS = 86_400_000
/**
 * How long before the expiry a warning is logged. Automatic renewals happen earlier. If one fails, a person can act.
 */
const WARN_BEFORE_MS = 14 * DAY_MS
/** For short-lived certificates: how long before the expiry to warn, as a share of the lifetime. */
const WARN_BEFORE_SHARE = 0.2

/** Thrown if files of TLS options are unusable. */
export class TlsFilesError extends Error {
  readonly code = 'SLUICE_TLS_FILES'
  /** Whether reading one of the files is denied. */
  readonly denied: boolean
  readonly problems: readonly TlsProblem[]

  constructor(problems: readonly TlsProblem[]) {
    super(problems.map(tlsProblemText).join('; '))
    this.problems = problems
    this.denied = problems.some(({ kind }) => kind === 'denied')
  }
}

export interface TlsFilesContext {
  readonly log: Logger
  readonly clock: Clock
  readonly reach?: Reach | undefined
  /** Called when replaced files are unusable. */
  readonly failed: () => void
}

/** The files of TLS options, which are read again when they are replaced. An unusable replacement has no effect. */
export class TlsFiles {
  readonly #paths: TlsPaths
  readonly #context: TlsFilesContext
  #version = ''
  #loggedProblem = ''
  #warnedAt = Number.NEGATIVE_INFINITY
  #expiries: readonly TlsExpiry[] = []

  constructor(paths: TlsPaths, context: TlsFilesContext) {
    this.#paths = paths
    this.#context = context
  }

  get expiries(): readonly TlsExpiry[] {
    return this.#expiries
  }

  /** Throws TlsFilesError if a file is unusable. */
  async load(): Promise<TlsContent> {
    this.#version = await this.#currentVersion()
    const { clock, reach } = this.#context
    const { content, problems } = await readTls(this.#paths, clock.wall(), reach)
    if (!content) throw new TlsFilesError(problems.filter(({ kind }) => kind !== 'warning'))
    this.#expiries = content.expiries
    this.#warnOfExpiry()
    return content
  }

  /** The new content, if the files were replaced and are usable; otherwise undefined. */
  async renewed(): Promise<TlsContent | undefined> {
    this.#warnOfExpiry()
    if (!(await this.replaced())) return undefined
    const { log, failed } = this.#context
    try {
      const before = this.#expiries
      const content = await this.load()
      this.#loggedProblem = ''
      log.info(
        { files: this.#names(), expires: datesOf(content.expiries), before: datesOf(before) },
        'TLS files were renewed',
      )
      return content
    } catch (error) {
      // The next check must read the files again. A certificate and its key are often replaced one after the other, so
      // the next check may find that both were replaced.
      this.#version = ''
      const text = errorText(error)
      if (text !== this.#loggedProblem) {
        failed()
        log.error(
          { code: 'SLUICE_TLS_FILES', error: text },
          'cannot use the renewed TLS files; keeping the current ones',
        )
      }
      this.#loggedProblem = text
      return undefined
    }
  }

  /** Whether the files changed since they were read. */
  async replaced(): Promise<boolean> {
    return (await this.#currentVersion()) !== this.#version
  }

  #names(): string[] {
    return TLS_OPTIONS.flatMap(option => this.#paths[option] ?? [])
  }

  async #currentVersion(): Promise<string> {
    const versions = await Promise.all(
      this.#names().map(async file => {
        const { ino, size, mtimeMs, ctimeMs } = await fileSystems
          .runInTime(file, () => stat(file))
          .catch(() => ({
            ino: 0,
            size: 0,
            mtimeMs: 0,
            ctimeMs: 0,
          }))
        return `${ino} ${size} ${mtimeMs} ${ctimeMs}`
      }),
    )
    return versions.join(';')
  }

  /** At most once a day, warns about certificates that expire soon. */
  #warnOfExpiry(): void {
    const { log, clock } = this.#context
    const wall = clock.wall()
    const ending = this.#expiries.filter(({ expiresAt, validFrom }) => {
      const warnBefore = Math.min(WARN_BEFORE_MS, (expiresAt - validFrom) * WARN_BEFORE_SHARE)
      return expiresAt - wall < warnBefore
    })
    if (ending.length === 0 || wall - this.#warnedAt < DAY_MS) return
    this.#warnedAt = wall
    for (const { option, file, subject, expiresAt } of ending) {
      const expired = expiresAt <= wall
      const fields = { option: `tls.${option}`, file, subject, expires: new Date(expiresAt).toISOString() }
      if (expired) log.error({ code: 'SLUICE_CERTIFICATE_EXPIRED', ...fields }, 'a certificate has expired; renew it')
      else log.warn({ code: 'SLUICE_CERTIFICATE_EXPIRES', ...fields }, 'a certificate expires soon; renew it')
    }
  }
}

/** A certificate that expires sooner is a problem. */
const SOON_S = 7 * 86_400

/** The expiry of each certificate file. */
export function expiryFact(expiries: () => readonly TlsExpiry[]): Fact {
  return {
    name: 'sluice_tls_certificate_expiry_timestamp_seconds',
    help: 'When the certificates in a file expire, in seconds since 1970. In a chain, the earliest expiry counts; of several authorities, the latest.',
    read: () =>
      expiries().map(({ option, file, expiresAt }) => ({ labels: { option, file }, value: expiresAt / 1000 })),
    problem(seconds, { id, wall, labels: { option, file } }) {
      const left = seconds - wall / 1000
      const when = `${left <= 0 ? 'expired' : 'expires'} on ${new Date(seconds * 1000).toISOString().slice(0, 10)}`
      const what = `${id}: the certificate in tls.${option} (${file}) ${when}`
      const todo = 'Renew the certificate in that file. The new one is used without a restart.'
      return left < SOON_S && { gravity: 'connections', what, todo }
    },
  }
}

function datesOf(expiries: readonly TlsExpiry[]): string[] {
  return expiries.map(({ expiresAt }) => new Date(expiresAt).toISOString())
}
