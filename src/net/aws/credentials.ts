import { homedir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { ComponentContext } from '../../core/component.js'
import { DeliveryError, errorText } from '../../core/errors.js'
import { readWithin } from '../../core/options/reach.js'
import { parseIsoTime } from '../../lib/formats/iso-time.js'
import { deadline } from '../../lib/time.js'
import type { DialOptions } from '../dial-options.js'
import { bodyText } from '../http/client/answers/read-answer.js'
import { isSuccess } from '../http/client/answers/statuses.js'
import { Transport } from '../http/client/transport.js'
import { AccessKey, keyProblem, noKeyFile } from '../key.js'
import { isLoopback } from '../urls.js'
import type { AwsAuth } from './auth-options.js'
import type { Credentials } from './sign.js'

/** Credentials that were read. `expiresAt`: wall clock in milliseconds; infinity if they do not expire. */
interface Found extends Credentials {
  readonly expiresAt: number
}

interface Place {
  readonly name: string
  /** Whether the credentials are read before each request. Otherwise, they are cached until they expire. */
  readonly isNear: boolean
  readonly advice?: string
  read(signal: AbortSignal): Promise<Found>
}

/** Credentials are fetched again this long before they expire. */
const EARLY_MS = 5 * 60_000
/** After a failure or a rejection, the minimum time until credentials are fetched again. */
const AGAIN_MS = 10_000
const FETCH_MS = 5000
const LONGEST_FILE = 256 * 1024
const METADATA = 'http://169.254.169.254'
const CONTAINER = 'http://169.254.170.2'
/** Besides this machine, only these hosts may receive a token without encryption. */
const CONTAINER_HOST = /^(169\.254\.170\.(2|23)|\[fd00:ec2::23\])$/

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Finds credentials in the first of these places that has any: the options, the environment, a web identity, the shared
 * credentials file, a container's endpoint, the metadata service of EC2 (version 2). Reads the credentials again when
 * they change or expire. A published pipeline uses only its options, since all other places belong to the host.
 */
export class AwsCredentials {
  readonly #auth: AwsAuth
  readonly #dial: DialOptions
  readonly #region: string
  readonly #context: ComponentContext
  readonly #env: Environment
  readonly #key: AccessKey | undefined
  #found: Found | undefined
  #triedAt = Number.NEGATIVE_INFINITY
  #transport: Transport | undefined
  /** Whether the current failure to refresh was logged. */
  #isLogged = false

  constructor(
    auth: AwsAuth,
    dial: DialOptions,
    region: string,
    context: ComponentContext,
    env: Environment = process.env,
  ) {
    this.#auth = auth
    this.#dial = dial
    this.#region = region
    this.#context = context
    this.#env = env
    const { secret_access_key: key, secret_access_key_file: file } = auth
    const { log, reach } = context
    if (key !== undefined || file !== undefined)
      this.#key = new AccessKey({ key, key_file: file, credential: undefined, exec: undefined }, log, reach)
  }

  /** The credentials to use now. Without credentials, throws a DeliveryError that pauses delivery. */
  async current(signal: AbortSignal): Promise<Credentials> {
    const { clock } = this.#context
    const place = await this.#place()
    const found = this.#found
    const isFresh = found && !place.isNear && found.expiresAt - clock.wall() > EARLY_MS
    if (found && (isFresh || (!place.isNear && this.#isTooSoon() && found.expiresAt > clock.wall()))) return found
    return await this.#read(place, signal)
  }

  /** Reads the credentials again. Resolves with true if they have changed. */
  async changed(): Promise<boolean> {
    const before = this.#found
    const place = await this.#place()
    if (!place.isNear && this.#isTooSoon()) return false
    try {
      await this.#read(place, AbortSignal.timeout(FETCH_MS))
    } catch {
      return false
    }
    return before?.secretAccessKey !== this.#found?.secretAccessKey
  }

  async stop(): Promise<void> {
    await this.#transport?.stop()
  }

  #isTooSoon(): boolean {
    return this.#context.clock.now() - this.#triedAt < AGAIN_MS
  }

  async #read(place: Place, signal: AbortSignal): Promise<Found> {
    const { clock, log } = this.#context
    this.#triedAt = clock.now()
    try {
      const before = this.#found
      const found = await place.read(signal)
      if (before && before.accessKeyId !== found.accessKeyId) log.info({ from: place.name }, 'read new credentials')
      this.#found = found
      this.#isLogged = false
      return found
    } catch (error) {
      if (this.#found && this.#found.expiresAt > clock.wall()) {
        const fields = { from: place.name, error: errorText(error) }
        if (!this.#isLogged) log.warn(fields, 'cannot read the credentials again; keeping the current ones')
        this.#isLogged = true
        return this.#found
      }
      if (error instanceof DeliveryError && error.failure === 'hold') throw error
      const message = `no credentials from ${place.name}: ${errorText(error)}${place.advice ?? ''}`
      throw new DeliveryError(message, { failure: 'hold', reason: 'no_key', cause: error })
    }
  }

  async #place(): Promise<Place> {
    const env = this.#env
    const { access_key_id: id, credentials_file: file, profile } = this.#auth
    if (this.#key && id !== undefined)
      return near(this.#auth.secret_access_key_file ?? 'the configuration', async () =>
        lasting({
          AccessKeyId: id,
          SecretAccessKey: await this.#key!.current(),
          Token: this.#auth.session_token?.reveal(),
        }),
      )
    if (file !== undefined) return near(file, () => this.#fromFile(file, profile))
    if (this.#context.reach)
      return near('the configuration', async () => {
        throw new Error('set "auth"; credentials of this host are not used here')
      })
    if (profile === undefined && env.AWS_ACCESS_KEY_ID && env.AWS_SECRET_ACCESS_KEY)
      return near('the environment', async () =>
        lasting({
          AccessKeyId: env.AWS_ACCESS_KEY_ID,
          SecretAccessKey: env.AWS_SECRET_ACCESS_KEY,
          Token: env.AWS_SESSION_TOKEN,
        }),
      )
    if (profile === undefined && env.AWS_WEB_IDENTITY_TOKEN_FILE && env.AWS_ROLE_ARN)
      return far('AssumeRoleWithWebIdentity', signal => this.#fromWebIdentity(signal))
    const shared = env.AWS_SHARED_CREDENTIALS_FILE || join(env.HOME || homedir(), '.aws/credentials')
    const isNamed = env.AWS_SHARED_CREDENTIALS_FILE || env.AWS_PROFILE || profile !== undefined
    if (isNamed || (await this.#hasDefault(shared))) return near(shared, () => this.#fromFile(shared, profile))
    if (env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI || env.AWS_CONTAINER_CREDENTIALS_FULL_URI)
      return far('the endpoint of the container', signal => this.#fromContainer(signal))
    const advice = '; elsewhere, set "auth", AWS_ACCESS_KEY_ID or AWS_PROFILE'
    return { ...far('the metadata service of EC2', signal => this.#fromMetadata(signal)), advice }
  }

  async #textOf(path: string): Promise<string> {
    const { reach } = this.#context
    const { bytes } = await readWithin(reach, path, noKeyFile(LONGEST_FILE))
    return bytes.toString()
  }

  async #hasDefault(path: string): Promise<boolean> {
    const text = await this.#textOf(path).catch(() => '')
    return profileOf(text, 'default') !== undefined
  }

  async #fromFile(path: string, profile = this.#env.AWS_PROFILE || 'default'): Promise<Found> {
    const found = profileOf(await this.#textOf(path), profile)
    if (!found) throw new Error(`the profile "${profile}" does not exist`)
    return lasting({
      AccessKeyId: found.aws_access_key_id,
      SecretAccessKey: found.aws_secret_access_key,
      Token: found.aws_session_token,
    })
  }

  async #fromWebIdentity(signal: AbortSignal): Promise<Found> {
    const { AWS_WEB_IDENTITY_TOKEN_FILE: file = '', AWS_ROLE_ARN: role = '', AWS_ROLE_SESSION_NAME: name } = this.#env
    const { bytes } = await readWithin(undefined, file, noKeyFile(LONGEST_FILE))
    const suffix = this.#region.startsWith('cn-') ? '.cn' : ''
    const url = this.#env.AWS_ENDPOINT_URL_STS ?? `https://sts.${this.#region}.amazonaws.com${suffix}`
    const body = new URLSearchParams({
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: role,
      RoleSessionName: name ?? 'sluice',
      WebIdentityToken: bytes.toString().trim(),
    })
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const xml = await this.#ask('POST', url, headers, signal, { body: body.toString(), isRemote: true })
    const of = (name: string) => new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml)?.[1]
    return expiring({
      AccessKeyId: of('AccessKeyId'),
      SecretAccessKey: of('SecretAccessKey'),
      Token: of('SessionToken'),
      Expiration: of('Expiration'),
    })
  }

  async #fromContainer(signal: AbortSignal): Promise<Found> {
    const env = this.#env
    const relative = env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
    const url = relative ? CONTAINER + relative : (env.AWS_CONTAINER_CREDENTIALS_FULL_URI ?? '')
    const { protocol, hostname } = new URL(url)
    if (protocol !== 'https:' && !isLoopback(hostname) && !CONTAINER_HOST.test(hostname))
      throw new Error('AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or an address of this machine')
    const file = env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE
    const token = file
      ? (await readWithin(undefined, file, noKeyFile(LONGEST_FILE))).bytes.toString().trim()
      : env.AWS_CONTAINER_AUTHORIZATION_TOKEN
    const answer = await this.#ask('GET', url, token ? { authorization: token } : {}, signal)
    return expiring(answered(answer))
  }

  async #fromMetadata(signal: AbortSignal): Promise<Found> {
    const env = this.#env
    if (env.AWS_EC2_METADATA_DISABLED === 'true') throw new Error('it is disabled by AWS_EC2_METADATA_DISABLED')
    const url = (env.AWS_EC2_METADATA_SERVICE_ENDPOINT ?? METADATA).replace(/\/+$/, '')
    const ttl = { 'x-aws-ec2-metadata-token-ttl-seconds': '21600' }
    const token = { 'x-aws-ec2-metadata-token': await this.#ask('PUT', `${url}/latest/api/token`, ttl, signal) }
    const roles = `${url}/latest/meta-data/iam/security-credentials/`
    const [role = ''] = (await this.#ask('GET', roles, token, signal)).split(' ')
    return expiring(answered(await this.#ask('GET', roles + encodeURIComponent(role), token, signal)))
  }

  /** Returns the start of a success response; throws for others. `isRemote`: the request may need the proxy. */
  async #ask(
    method: 'GET' | 'PUT' | 'POST',
    url: string,
    headers: Record<string, string>,
    signal: AbortSignal,
    { body = '', isRemote = false } = {},
  ): Promise<string> {
    const { proxy, connect_timeout } = this.#dial
    const dial = {
      url,
      connect_timeout: Math.min(connect_timeout, FETCH_MS),
      tls: {},
      proxy: isRemote ? proxy : undefined,
    }
    this.#transport ??= new Transport(dial, { ...this.#context, inherited: undefined })
    await this.#transport.open()
    const { origin, pathname, search } = new URL(url)
    const content = { parts: [Buffer.from(body)], bytes: Buffer.byteLength(body) }
    const within = deadline(FETCH_MS, signal)
    try {
      const request = { target: new URL(origin), path: pathname + search, method, headers, body: content }
      const answer = await this.#transport.request(request, url, within.signal)
      const text = await bodyText(answer.body)
      if (isSuccess(answer.statusCode)) return text
      throw new Error(`${answer.statusCode} from ${method} ${origin}${pathname}`)
    } finally {
      within.clear()
    }
  }
}

/** Credentials in a response, with the names that AWS uses. */
interface Given {
  readonly AccessKeyId?: string | undefined
  readonly SecretAccessKey?: string | undefined
  readonly Token?: string | null | undefined
  readonly Expiration?: string | null | undefined
}

const near = (name: string, read: Place['read']): Place => ({ name, isNear: true, read })
const far = (name: string, read: Place['read']): Place => ({ name, isNear: false, read })

function lasting(given: Given): Found {
  const { AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey, Token: sessionToken } = given
  if (!accessKeyId || !secretAccessKey) throw new Error('it lacks an access key ID or a secret access key')
  // The ID and the token must be valid in headers, because requests carry them there.
  const problem = keyProblem(accessKeyId) ?? (sessionToken ? keyProblem(sessionToken, 'session token') : undefined)
  if (problem) throw new Error(problem.replace('the key', 'the access key ID'))
  return { accessKeyId, secretAccessKey, sessionToken: sessionToken || undefined, expiresAt: Number.POSITIVE_INFINITY }
}

function expiring(given: Given): Found {
  const found = lasting(given)
  const expiration = Buffer.from(given.Expiration ?? '')
  const expiresAt = parseIsoTime(expiration, 0, expiration.length)
  return { ...found, expiresAt: Number.isNaN(expiresAt) ? found.expiresAt : expiresAt }
}

const answer = z.object({
  AccessKeyId: z.string(),
  SecretAccessKey: z.string(),
  Token: z.string().nullish(),
  Expiration: z.string().nullish(),
})

/** Parses a response. Replaces the messages of JSON.parse and zod, since they could quote credentials. */
function answered(text: string): Given {
  try {
    return answer.parse(JSON.parse(text))
  } catch {
    throw new Error('the answer is not JSON with credentials')
  }
}

/** Returns the section `name` of an INI file; undefined if the file does not have it. */
function profileOf(text: string, name: string): Record<string, string> | undefined {
  let found: Record<string, string> | undefined
  let isIn = false
  for (const line of text.split('\n')) {
    const section = /^\s*\[\s*([^\]]*?)\s*\]/.exec(line)?.[1]
    if (section !== undefined) {
      isIn = section === name
      if (isIn) found ??= {}
    }
    const at = line.indexOf('=')
    if (isIn && found && section === undefined && at > 0 && !/^\s*[#;]/.test(line))
      found[line.slice(0, at).trim()] = line.slice(at + 1).trim()
  }
  return found
}
