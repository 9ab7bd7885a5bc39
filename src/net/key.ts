import { constants, type Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { OptionProblem } from '../core/component.js'
import { DeliveryError, errorCode, errorText } from '../core/errors.js'
import { refuse, refuseAt, type Secret, secret } from '../core/options/options.js'
import { credentialName, filePath, OutOfReach, type Reach, reaches, readWithin } from '../core/options/reach.js'
import { accessSync, statSync } from '../lib/files/disk/disk.js'
import { fileSystems, SilentFileSystem } from '../lib/files/disk/file-systems.js'
import { shownPath } from '../lib/files/shown-path.js'
import { printedBy } from '../lib/printed-by.js'
import { systemClock } from '../lib/time.js'

/** The characters that RFC 9110 allows in a header name and in an authentication scheme. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

const KEYS = ['key', 'key_file', 'credential', 'exec'] as const
const PASSWORDS = ['password', 'password_file', 'credential', 'exec'] as const
const ALL = [...KEYS, 'username', 'password', 'password_file', 'scheme'] as const

/** For each type: the word before the key, the options that can hold the key, and other options of the type. */
const TYPES = {
  token: { word: 'Token', places: KEYS, others: ['scheme'] },
  bearer: { word: 'Bearer', places: KEYS, others: [] },
  api_key: { word: 'ApiKey', places: KEYS, others: [] },
  basic: { word: 'Basic', places: PASSWORDS, others: ['username'] },
  none: { word: '', places: [], others: ['scheme'] },
} as const

/** Options for the key or password, and for how requests carry it. */
export const auth = z
  .strictObject({
    type: z
      .enum(['token', 'bearer', 'api_key', 'basic', 'none'])
      .prefault('token')
      .describe(
        'token: the word in `scheme`, then a key. bearer: `Bearer`, then a key. api_key: `ApiKey`, then a key, as Elasticsearch expects it. basic: a user and a password. none: no authentication.',
      ),
    key: secret().optional().describe('The key itself. Prefer an environment variable, as in ${SLUICE_ACCESS_KEY}.'),
    key_file: filePath()
      .optional()
      .describe('File that holds the key, read again when it changes. A trailing newline is ignored.'),
    credential: credentialName()
      .optional()
      .describe('Name of a systemd credential (LoadCredential=) that holds the key or, with `basic`, the password.'),
    exec: z
      .array(reaches('code', z.string().min(1)))
      .min(1)
      .optional()
      .describe(
        'Program, with its arguments, that prints the key or, with `basic`, the password. It runs without a shell, for at most 10 seconds. After a 401 it runs again, at most every 10 seconds.',
      ),
    username: reaches('nothing', z.string().regex(/^[^:\p{Cc}]+$/u, { error: 'must be a name without a colon' }))
      .optional()
      .describe('With `basic`: the user.'),
    password: secret()
      .optional()
      .describe('With `basic`: the password itself. Prefer an environment variable, as in ${SLUICE_PASSWORD}.'),
    password_file: filePath()
      .optional()
      .describe('With `basic`: file that holds the password, read again when it changes.'),
    scheme: reaches('nothing', z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]*$/, { error: 'must be one word' }))
      .optional()
      .describe('With `token`: the word before the key. Empty: only the key is sent. Default: Token.'),
    header: reaches('nothing', z.string().regex(HEADER_NAME, { error: 'must be the name of a header' }))
      .prefault('Authorization')
      .describe('The header that carries the key.'),
  })
  .superRefine((auth, context) => checkAuth(auth, context, TYPES[auth.type], 'basic'))

type AuthName = (typeof ALL)[number]

/** For each type of authentication: the options that can hold the key or password, and other options of the type. */
export const USES = {
  key: { places: KEYS, others: [] },
  password: { places: PASSWORDS, others: ['username'] },
  none: { places: [], others: [] },
} as const

/** Rejects options that cannot be combined. If a user or password has no use, suggests the types in `withUser`. */
export function checkAuth(
  auth: { readonly type: string } & { readonly [name in AuthName]?: unknown },
  context: z.RefinementCtx,
  { places, others }: { readonly places: readonly AuthName[]; readonly others: readonly AuthName[] },
  withUser: string,
): void {
  const { type } = auth
  const unused = ALL.filter(name => auth[name] !== undefined && !places.includes(name) && !others.includes(name))
  for (const name of unused) {
    const instead = type !== 'none' && /^(user|pass)/.test(name) ? `; write type: ${withUser}` : ''
    refuseAt(context, [name], `has no use with type: ${type}${instead}`)
  }
  if (others.includes('username') && auth.username === undefined) refuse(context, 'needs username')
  const given = places.filter(name => auth[name] !== undefined)
  if (places.length > 0 && given.length !== 1 && unused.length === 0) {
    const all = `${places.slice(0, -1).join(', ')} and ${places.at(-1)}`
    refuse(context, `needs exactly one of ${all}; ${given.join(' and ') || 'none'} given`)
  }
  for (const name of ['key', 'password'] as const) {
    const secret = auth[name] as Secret | undefined
    if (!secret) continue
    const text = trimKey(secret.reveal())
    const isPlain = type === 'api_key' && text.includes(':')
    const problem = keyProblem(text, name) ?? (isPlain ? PLAIN_KEY : undefined)
    if (problem) refuseAt(context, [name], problem)
  }
}

const PLAIN_KEY =
  'the key is ID:KEY; api_key expects both in base64, as in the field "encoded" of the response that created the key'

export type AuthOptions = z.output<typeof auth>

/** The word before the credentials; empty: no word. */
export const schemeOf = ({ type, scheme }: AuthOptions): string => scheme ?? TYPES[type].word

/** The credentials that follow the word of `schemeOf`. */
export const credentialsOf = ({ username }: AuthOptions, key: string): string =>
  username === undefined ? key : basicCredentials(username, key)

export function headerValue(auth: AuthOptions, key: string): string {
  const word = schemeOf(auth)
  return word ? `${word} ${credentialsOf(auth, key)}` : credentialsOf(auth, key)
}

export const basicCredentials = (user: string, password: string): string =>
  Buffer.from(`${user}:${password}`).toString('base64')

/** Warnings of `sluice validate` if a key file is missing or not readable. `path`: the place of these options. */
export function keyFileWarnings(
  { key_file, password_file }: Pick<AuthOptions, 'key_file' | 'password_file'>,
  path: readonly string[] = ['auth'],
): OptionProblem[] {
  return Object.entries({ key_file, password_file }).flatMap(([option, file]) => {
    const message = file === undefined ? undefined : fileWarning(file, option === 'key_file' ? 'key' : 'password')
    return message === undefined ? [] : [{ path: [...path, option], message, unusable: file! }]
  })
}

/** Warnings about a server that other machines reach: everyone can send events, or keys are sent without encryption. */
export function exposedWarnings(
  path: readonly string[],
  { type }: Pick<AuthOptions, 'type'>,
  tls: { readonly client_ca_file?: string | undefined } | undefined,
): OptionProblem[] {
  if (type !== 'none') return tls ? [] : [{ path, message: 'access keys are sent without encryption: set "tls"' }]
  if (tls?.client_ca_file) return []
  return [{ path, message: 'everyone who can reach this address can send events: set "auth", or tls.client_ca_file' }]
}

/** Like `keyFileWarnings`, for one file. */
export function fileWarning(file: string, what: string): string | undefined {
  const shown = shownPath(file)
  try {
    if (!statSync(file).isFile()) return `${shown} is not a file`
    accessSync(file, constants.R_OK)
    return undefined
  } catch (error) {
    if (error instanceof SilentFileSystem) return `${shown} cannot be read now: ${error.message}`
    return errorCode(error) === 'ENOENT'
      ? `${shown} does not exist here; create it where this configuration is used, with the ${what} in it`
      : `${shown} cannot be read by this user: ${errorText(error)}`
  }
}

/** Removes the line end that editors and `echo` append. With many line ends, a regular expression would take hours. */
export function trimKey(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === '\n' || text[end - 1] === '\r')) end--
  return text.slice(0, end)
}

/** Why a key or password cannot be sent; undefined if it can be sent. The text does not reveal the key or password. */
export function keyProblem(key: string, what = 'key'): string | undefined {
  if (/^•+$/.test(key))
    return `the ${what} is hidden here: write \${secret:NAME}, and save it as a secret of the account`
  if (key === '') return `the ${what} is empty`
  if (/[\r\n]/.test(key)) return `the ${what} has more than one line`
  if (what === 'password') return /\p{Cc}/u.test(key) ? 'the password has a control character' : undefined
  if (!/^[\x21-\x7e]+$/.test(key))
    return 'the key has a character that cannot be in a header (a space, a control character, or not ASCII)'
  return undefined
}

const LONGEST_KEY = 16 * 1024
const EXPOSED = 'everyone can read it'
/** Time limit of a program that prints a key. Minimum time between the runs that `changed` starts. */
const RUN_MS = 10_000
const RUN_AGAIN_MS = 10_000

/** Identifies the content of a file that was read. */
interface Version {
  readonly ino: number
  readonly size: number
  readonly mtimeMs: number
  readonly ctimeMs: number
}

/**
 * A password may contain any character, because it is sent encoded. A token grants access by itself, so its file must
 * not be readable by everyone.
 */
type What = 'access key' | 'password' | 'token'

/** The options that can hold a key or a password. */
type KeySource = Pick<AuthOptions, (typeof KEYS)[number]>

/**
 * The key that requests carry. A changed file is read again, and `changed()` runs the program again. If either fails,
 * the last key stays in use. Without a last key, delivery pauses. Messages and log lines do not contain keys.
 */
export class AccessKey {
  readonly #source: KeySource
  readonly #log: Logger
  readonly #reach: Reach | undefined
  readonly #what: What
  #key: string | undefined
  #previous: string | undefined
  #version: Version | undefined
  #loggedUnusable = false
  #loggedReadable = false
  #ranAgainAt = Number.NEGATIVE_INFINITY
  /** The current run of the program. */
  #running: Promise<void> | undefined

  /** `reach`: the limits of the component that the options belong to. */
  constructor(source: KeySource, log: Logger, reach?: Reach, what: What = 'access key') {
    this.#source = source
    this.#log = log
    this.#reach = reach
    this.#what = what
    if (source.key) this.#key = trimKey(source.key.reveal())
  }

  /** The key or password of these options; undefined for the type `none`. */
  static of(auth: AuthOptions, log: Logger, reach?: Reach): AccessKey | undefined {
    const { type, key, key_file, credential, exec, password, password_file } = auth
    if (type === 'none') return undefined
    if (type !== 'basic') return new AccessKey({ key, key_file, credential, exec }, log, reach)
    return new AccessKey({ key: password, key_file: password_file, credential, exec }, log, reach, 'password')
  }

  /** The key, and the previous one that a request in flight may carry. Callers redact both from texts. */
  get known(): readonly string[] {
    return [this.#key, this.#previous].filter(key => key !== undefined)
  }

  /** Where an operator must put a new key. */
  get place(): string {
    const { key_file: file, credential, exec } = this.#source
    if (exec) return `where ${exec[0]} gets it; ${exec[0]} is run again automatically`
    if (file) return `in ${file}, which is read again automatically`
    return credential ? `in the credential "${credential}" and restart` : 'in the configuration and reload it'
  }

  /** The key to use now. Without a key, throws a DeliveryError that pauses delivery. */
  async current(): Promise<string> {
    const { exec } = this.#source
    if (exec) {
      if (this.#key === undefined)
        await this.#run(exec).catch(error => {
          throw held(`no ${this.#what} from ${exec[0]}: ${errorText(error)}`, error)
        })
      return this.#key!
    }
    const path = this.#path()
    if (path === undefined) return this.#key!
    try {
      if (this.#key === undefined || !sameVersion(this.#version, await fileSystems.runInTime(path, () => stat(path))))
        await this.#read(path)
      this.#loggedUnusable = false
    } catch (error) {
      if (error instanceof OutOfReach) throw denied(error)
      const text = this.#unusable(path, error)
      if (this.#key === undefined) throw held(text, error)
      if (!this.#loggedUnusable)
        this.#log.warn({ error: text }, `cannot read the ${this.#name} again; keeping the current one`)
      this.#loggedUnusable = true
    }
    return this.#key!
  }

  /**
   * Reads the file again, even if it looks unchanged. Runs the program again, unless `changed` ran it within the last
   * RUN_AGAIN_MS. Resolves with true if the key has changed.
   */
  async changed(): Promise<boolean> {
    const before = this.#key
    const { exec } = this.#source
    try {
      const path = this.#path()
      if (path !== undefined) await this.#read(path)
      const now = systemClock.now()
      if (exec && now - this.#ranAgainAt >= RUN_AGAIN_MS) {
        this.#ranAgainAt = now
        await this.#run(exec)
      }
    } catch {
      return false
    }
    return this.#key !== before
  }

  get #name(): string {
    return this.#what === 'token' ? 'token' : 'access key'
  }

  #path(): string | undefined {
    const { key_file: file, credential } = this.#source
    if (credential === undefined) return file
    const folder = process.env.CREDENTIALS_DIRECTORY
    if (folder) return join(folder, credential)
    throw held(
      `cannot find the credential "${credential}": CREDENTIALS_DIRECTORY is not set; run under systemd with LoadCredential=${credential}:PATH`,
    )
  }

  async #read(path: string): Promise<void> {
    const { bytes, stats: version } = await readWithin(this.#reach, path, noKeyFile(LONGEST_KEY))
    const isExposed = (version.mode & 0o004) !== 0
    if (isExposed && this.#what === 'token') throw new Error(EXPOSED)
    this.#take(bytes, { file: path })
    this.#version = version
    if (isExposed && !this.#loggedReadable) {
      this.#loggedReadable = true
      this.#log.warn({ file: path }, 'the access key file is readable by everyone; run chmod 600 on it')
    }
  }

  #run(exec: readonly string[]): Promise<void> {
    this.#running ??= this.#runOnce(exec).finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #runOnce(exec: readonly string[]): Promise<void> {
    this.#take(await printedBy(exec, { maxBytes: LONGEST_KEY, timeoutMs: RUN_MS }), { program: exec[0] })
  }

  /** Checks the key that was read, and uses it. */
  #take(bytes: Buffer, from: object): void {
    const isPassword = this.#what === 'password'
    const key = trimKey(bytes.toString(isPassword ? 'utf8' : 'latin1'))
    const problem = keyProblem(key, this.#what.replace('access ', ''))
    if (problem) throw new Error(problem)
    if (key === this.#key) return
    if (this.#key !== undefined) this.#log.info(from, `read a new ${this.#name}`)
    this.#previous = this.#key
    this.#key = key
  }

  #unusable(path: string, error: unknown): string {
    const code = errorCode(error)
    const why =
      code === 'ENOENT'
        ? 'the file does not exist'
        : code === 'EACCES'
          ? 'this user may not read it'
          : error instanceof SilentFileSystem
            ? error.message
            : (code ?? (error as Error).message)
    const place = this.#source.credential ? 'into the file of LoadCredential=, and restart the unit' : 'there'
    const put = `put the ${this.#what.replace('access ', '')} ${place}`
    const todo = code === 'EACCES' ? '`sluice doctor` shows how to allow it' : put
    const advice = why === EXPOSED ? 'run chmod 600 on it' : todo
    return `no ${this.#what} from ${path}: ${why}; ${advice}`
  }
}

/** Returns a function that says why a file cannot contain a key of at most `longest` bytes. */
export const noKeyFile = (longest: number) => (stats: Stats) => {
  if (!stats.isFile()) return new Error('it is not a file')
  return stats.size > longest ? new Error('it is too long for a key') : undefined
}

function sameVersion(a: Version | undefined, b: Version): boolean {
  return a?.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs
}

function held(message: string, cause?: unknown): DeliveryError {
  return new DeliveryError(message, { failure: 'hold', reason: 'no_key', cause })
}

function denied(cause: OutOfReach): DeliveryError {
  return new DeliveryError(`cannot use the access key: ${cause.message}`, {
    failure: 'hold',
    reason: 'file_denied',
    cause,
  })
}
