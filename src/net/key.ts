import { constants, type Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { OptionProblem } from '../core/component.js'
import { DeliveryError, errorCode, errorText } from '../core/errors.js'
import { refuse, refuseAt, secret } from '../core/options/options.js'
import { filePath, OutOfReach, type Reach, reaches, readWithin } from '../core/options/reach.js'
import { fileSystems, SilentFileSystem } from '../lib/files/remote/file-systems.js'
import { accessSync, statSync } from '../lib/files/remote/guarded-fs.js'
import { shownPath } from '../lib/files/shown-path.js'

/** The characters that RFC 9110 allows in a header name and in an authentication scheme. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** Where the key comes from, and where requests carry it. */
export const auth = z
  .strictObject({
    type: z.enum(['token', 'none']).prefault('token').describe('token: a key in a header. none: no authentication.'),
    key: secret().optional().describe('The key itself; better from the environment: ${SLUICE_ACCESS_KEY}.'),
    key_file: filePath()
      .optional()
      .describe('File that holds the key, read again when it changes. A trailing newline is ignored.'),
    credential: reaches(
      'credentials',
      z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]*$/, { error: 'must be the name of a systemd credential' }),
    )
      .optional()
      .describe('Name of a systemd credential (LoadCredential=) that holds the key.'),
    scheme: reaches('nothing', z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]*$/, { error: 'must be one word' }))
      .prefault('Token')
      .describe('The word before the key, such as Token or Bearer. Empty: only the key is sent.'),
    header: reaches('nothing', z.string().regex(HEADER_NAME, { error: 'must be the name of a header' }))
      .prefault('Authorization')
      .describe('The header that carries the key.'),
  })
  .superRefine((auth, context) => {
    const given = (['key', 'key_file', 'credential'] as const).filter(name => auth[name] !== undefined)
    if (auth.type === 'none') {
      for (const name of given) refuseAt(context, [name], 'has no use with type: none')
    } else if (given.length !== 1) {
      refuse(context, `needs exactly one of key, key_file and credential; ${given.join(' and ') || 'none'} given`)
    }
    const problem = auth.key && keyProblem(trimKey(auth.key.reveal()))
    if (problem) refuseAt(context, ['key'], problem)
  })

export type AuthOptions = z.output<typeof auth>

/** Warnings of `sluice validate`: `key_file`, an option in `path`, does not exist or cannot be read by this user. */
export function keyFileWarnings(
  { key_file: file }: Pick<AuthOptions, 'key_file'>,
  path: readonly string[] = ['auth'],
): OptionProblem[] {
  if (file === undefined) return []
  const option = [...path, 'key_file']
  const shown = shownPath(file)
  try {
    if (statSync(file).isFile()) accessSync(file, constants.R_OK)
    else return [{ path: option, message: `${shown} is not a file` }]
    return []
  } catch (error) {
    const missing = errorCode(error) === 'ENOENT'
    if (error instanceof SilentFileSystem)
      return [{ path: option, message: `${shown} cannot be read now: ${error.message}` }]
    const message = missing
      ? `${shown} does not exist here; create it where this configuration is used, with the key in it`
      : `${shown} cannot be read by this user: ${errorText(error)}`
    return [{ path: option, message }]
  }
}

/** Removes the line end that editors and `echo` append. A regular expression would take hours for many line ends. */
export function trimKey(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === '\n' || text[end - 1] === '\r')) end--
  return text.slice(0, end)
}

/** Why a key is unusable, in words that do not reveal it; undefined if it can be sent. */
export function keyProblem(key: string): string | undefined {
  if (/^•+$/.test(key)) return 'the key is hidden here: write ${secret:NAME}, and save it as a secret of the account'
  if (key === '') return 'the key is empty'
  if (/[\r\n]/.test(key)) return 'the key has more than one line'
  if (!/^[\x21-\x7e]+$/.test(key))
    return 'the key has a character that cannot be in a header (a space, a control character, or not ASCII)'
  return undefined
}

const LONGEST_KEY = 16 * 1024

/** Identifies the content of a file that was read. */
interface Version {
  readonly ino: number
  readonly size: number
  readonly mtimeMs: number
  readonly ctimeMs: number
}

/**
 * The key that requests carry, from any of its possible places. A file is read again when it changes. While it is
 * unusable, the last key stays in use; without one, delivery pauses. No message or log line contains a key.
 */
export class AccessKey {
  readonly #auth: AuthOptions
  readonly #log: Logger
  readonly #reach: Reach | undefined
  #key: string | undefined
  #version: Version | undefined
  #loggedUnusable = false
  #loggedReadable = false

  /** `reach`: the limits of the component that the options belong to. */
  constructor(auth: AuthOptions, log: Logger, reach?: Reach) {
    this.#auth = auth
    this.#log = log
    this.#reach = reach
    if (auth.key) this.#key = trimKey(auth.key.reveal())
  }

  /** The key that was last returned, for redacting it from texts. */
  get last(): string | undefined {
    return this.#key
  }

  /** Where an operator has to put a new key. */
  get place(): string {
    const { key_file: file, credential } = this.#auth
    if (file) return `in ${file}, which is read again by itself`
    return credential ? `in the credential "${credential}" and restart` : 'in the configuration and reload it'
  }

  /** The key to use now. If there is none, throws a DeliveryError that pauses delivery. */
  async current(): Promise<string> {
    const path = this.#path()
    if (path === undefined) return this.#key!
    try {
      if (this.#key === undefined || !sameVersion(this.#version, await fileSystems.runInTime(path, () => stat(path))))
        await this.#read(path)
      this.#loggedUnusable = false
    } catch (error) {
      if (error instanceof OutOfReach) throw denied(error)
      const text = unusable(path, error)
      if (this.#key === undefined) throw held(text, error)
      if (!this.#loggedUnusable)
        this.#log.warn({ error: text }, 'cannot read the access key again; keeping the current one')
      this.#loggedUnusable = true
    }
    return this.#key!
  }

  /** Reads the file again even if it looks unchanged. Resolves with true if the key is another one. */
  async changed(): Promise<boolean> {
    const before = this.#key
    try {
      const path = this.#path()
      if (path !== undefined) await this.#read(path)
    } catch {
      return false
    }
    return this.#key !== before
  }

  #path(): string | undefined {
    const { key_file: file, credential } = this.#auth
    if (credential === undefined) return file
    const folder = process.env.CREDENTIALS_DIRECTORY
    if (folder) return join(folder, credential)
    throw held(
      `there is no credential "${credential}": CREDENTIALS_DIRECTORY is not set; run under systemd with LoadCredential=${credential}:PATH`,
    )
  }

  async #read(path: string): Promise<void> {
    const { key, version } = await readKey(path, this.#reach)
    if (version.mode & 0o004 && !this.#loggedReadable) {
      this.#loggedReadable = true
      this.#log.warn({ file: path }, 'the access key file is readable by everyone; run chmod 600 on it')
    }
    if (this.#key !== undefined && key !== this.#key) this.#log.info({ file: path }, 'read a new access key')
    this.#key = key
    this.#version = version
  }
}

async function readKey(path: string, reach: Reach | undefined): Promise<{ key: string; version: Stats }> {
  const { bytes, stats } = await fileSystems.runInTime(path, () => readWithin(reach, path, noKeyFile(LONGEST_KEY)))
  const key = trimKey(bytes.toString('latin1'))
  const problem = keyProblem(key)
  if (problem) throw new Error(problem)
  return { key, version: stats }
}

/** Why a file is not that of a key of at most `longest` bytes. */
export const noKeyFile = (longest: number) => (stats: Stats) => {
  if (!stats.isFile()) return new Error('it is not a file')
  return stats.size > longest ? new Error('it is too long for a key') : undefined
}

function sameVersion(a: Version | undefined, b: Version): boolean {
  return a?.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs
}

function unusable(path: string, error: unknown): string {
  const code = errorCode(error)
  const why =
    code === 'ENOENT'
      ? 'the file does not exist'
      : code === 'EACCES'
        ? 'this user may not read it'
        : error instanceof SilentFileSystem
          ? error.message
          : (code ?? (error as Error).message)
  return `no access key from ${path}: ${why}; put the key there`
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
