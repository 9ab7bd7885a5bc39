import { getFips } from 'node:crypto'
import type { ComponentContext, HandoverState } from '../../core/component.js'
import { DeliveryError } from '../../core/errors.js'
import type { ObjectFile } from '../../engine/flow/spool/object-file.js'
import type { ObjectStore } from '../../engine/flow/spool/spooled-destination.js'
import { hideSecrets } from '../../lib/formats/escapes.js'
import { sizeOfAll } from '../../lib/formats/parts.js'
import { packageVersion } from '../../lib/version.js'
import { AwsCredentials } from '../../net/aws/credentials.js'
import { digest, encodeUri, queryText, sign } from '../../net/aws/sign.js'
import { bodyText, drain } from '../../net/http/client/answers/read-answer.js'
import { isSuccess, requestCounter, retryAfterMs } from '../../net/http/client/answers/statuses.js'
import { withoutSlash } from '../../net/http/client/options.js'
import { Transport } from '../../net/http/client/transport.js'
import type { S3Options } from './options.js'
import { NO_UPLOAD, objectRefusal, S3Refusal, unescaped } from './refusal.js'

/** An object larger than this is sent in parts of this size. A part is in memory while it is sent. */
const PART_BYTES = 8 * 1024 * 1024
const USER_AGENT = `sluice/${packageVersion()}`
const SIGNATURE_LENGTH = 64
/** The note of an object whose upload was requested, while the id of the upload is not known yet. */
const ASKED = '?'
const LOST_UPLOAD: ReadonlySet<string | undefined> = new Set([NO_UPLOAD, 'InvalidPart', 'InvalidPartOrder'])

interface Multipart {
  readonly id: string
  /** The ETag of each part that the receiver has, in the order of the parts. */
  readonly tags: string[]
}

interface Asked {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  readonly key: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: readonly Buffer[]
}

interface Said {
  readonly text: string
  readonly etag?: string | undefined
  readonly length?: string | undefined
}

export class S3Store implements ObjectStore {
  readonly #options: S3Options
  readonly #context: ComponentContext
  readonly #region: string
  readonly #url: string
  readonly #credentials: AwsCredentials
  readonly #transport: Transport
  /** Whether requests have a checksum of the object besides the signature. Buckets with Object Lock require it. */
  #hasDigest = false
  /** Whether signatures cover the object. With TLS, this is unnecessary. Some buckets require it. */
  #isSigned: boolean

  constructor(options: S3Options, context: ComponentContext) {
    this.#options = options
    this.#context = context
    this.#region = regionOf(options, context)
    this.#url = bucketUrl(options, this.#region)
    this.#isSigned = !this.#url.startsWith('https:')
    this.#credentials = new AwsCredentials(options.auth, options, this.#region, context)
    this.#transport = new Transport({ ...options, url: this.#url }, context)
  }

  async open(signal: AbortSignal): Promise<void> {
    await this.#transport.open()
    // Logs a problem with the credentials now, although the first object is sent later.
    void this.#credentials.current(signal).catch(error => {
      this.#context.log.warn({ error: error.message }, 'credentials are not available yet; events wait in the spool')
    })
  }

  async send(object: ObjectFile, signal: AbortSignal): Promise<boolean> {
    const { key } = object.facts
    if (object.size <= PART_BYTES) {
      const body = await object.read(0, object.size)
      await this.#ask({ method: 'PUT', key, headers: this.#headers(object.facts.contentType), body }, signal)
      return true
    }
    const upload = object.progress as Multipart | undefined
    try {
      if (!upload) await this.#begin(object, signal)
      else return await this.#continue(object, upload, signal)
    } catch (error) {
      if (!(error instanceof S3Refusal && LOST_UPLOAD.has(error.awsCode))) throw error
      if (await this.#isStored(object, signal)) return true
      // The object is sent again if a part is unknown, or the upload was aborted, perhaps by a bucket rule.
      object.progress = undefined
      throw error
    }
    return false
  }

  async #begin(object: ObjectFile, signal: AbortSignal): Promise<void> {
    const { key, contentType } = object.facts
    // An upload that a killed process left unfinished costs money until the upload is aborted.
    const left = await object.readNote()
    if (left === ASKED) await this.#abortAll(key, signal)
    else if (left !== undefined) await this.#abort(key, left, signal)
    await object.writeNote(ASKED)
    const headers = this.#headers(contentType)
    const said = await this.#ask({ method: 'POST', key, query: { uploads: '' }, headers }, signal)
    const id = /<UploadId>([^<]+)<\/UploadId>/.exec(said.text)?.[1]
    if (id === undefined) throw objectRefusal(502, 'the answer does not contain an UploadId', `POST ${this.#url}`, {})
    await object.writeNote(id)
    object.progress = { id, tags: [] } satisfies Multipart
  }

  async #continue(object: ObjectFile, { id, tags }: Multipart, signal: AbortSignal): Promise<boolean> {
    const { key } = object.facts
    const from = tags.length * PART_BYTES
    if (from < object.size) {
      const body = await object.read(from, Math.min(object.size, from + PART_BYTES))
      const query = { partNumber: String(tags.length + 1), uploadId: id }
      const { etag } = await this.#ask({ method: 'PUT', key, query, body }, signal)
      tags.push(etag!)
      return false
    }
    const parts = tags.map((tag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${escaped(tag)}</ETag></Part>`)
    const completion = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`)
    const { text } = await this.#ask({ method: 'POST', key, query: { uploadId: id }, body: [completion] }, signal)
    // The receiver may send status 200, and then report an error.
    if (!/<CompleteMultipartUploadResult[\s>]/.test(text)) throw objectRefusal(500, text, `POST ${this.#url}`, {})
    return true
  }

  /** Whether the upload was completed, although no response to its completion arrived in time. */
  async #isStored({ facts, size }: ObjectFile, signal: AbortSignal): Promise<boolean> {
    const { length } = await this.#ask({ method: 'HEAD', key: facts.key }, signal).catch(error => {
      // Sending objects does not need the right to read them, so the credentials may lack this right.
      if (error instanceof S3Refusal && error.failure !== 'retry') return { length: undefined }
      throw error
    })
    return length === String(size)
  }

  /** Aborts all uploads of the object. Called if the response with the id of the upload was lost. */
  async #abortAll(key: string, signal: AbortSignal): Promise<void> {
    const query = { uploads: '', prefix: key }
    const { text } = await this.#ask({ method: 'GET', key: '', query }, signal).catch(error => {
      // Sending objects does not need the right to list uploads, so the credentials may lack this right.
      if (error instanceof S3Refusal && error.failure !== 'retry') return { text: '' }
      throw error
    })
    for (const upload of text.split('<Upload>').slice(1)) {
      const [, name = ''] = /<Key>([^<]*)<\/Key>/.exec(upload) ?? []
      const [, id] = /<UploadId>([^<]+)<\/UploadId>/.exec(upload) ?? []
      if (id !== undefined && unescaped(name) === key) await this.#abort(key, id, signal)
    }
  }

  async #abort(key: string, id: string, signal: AbortSignal): Promise<void> {
    await this.#ask({ method: 'DELETE', key, query: { uploadId: id } }, signal).catch(error => {
      const isGone = error instanceof S3Refusal && (error.awsCode === NO_UPLOAD || error.failure !== 'retry')
      if (!isGone) throw error
    })
  }

  /** Begins a multipart upload and aborts it, so that no object is stored. */
  async check(key: string, signal: AbortSignal): Promise<string> {
    await this.#transport.open()
    const headers = this.#headers('application/octet-stream')
    const { text } = await this.#ask({ method: 'POST', key, query: { uploads: '' }, headers }, signal)
    const id = /<UploadId>([^<]+)<\/UploadId>/.exec(text)?.[1]
    if (id === undefined) throw objectRefusal(502, text, `POST ${this.#url}`, {})
    await this.#ask({ method: 'DELETE', key, query: { uploadId: id } }, signal)
    return 'may write objects'
  }

  async changed(): Promise<boolean> {
    const [credentials, files] = await Promise.all([this.#credentials.changed(), this.#transport.changed()])
    return credentials || files
  }

  handOver(): HandoverState | undefined {
    return this.#transport.handOver()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#transport.stop(), this.#credentials.stop()])
  }

  #headers(contentType: string): Record<string, string> {
    const { storage_class, sse } = this.#options
    return {
      'content-type': contentType,
      ...(storage_class && { 'x-amz-storage-class': storage_class }),
      ...(sse && { 'x-amz-server-side-encryption': sse.type }),
      ...(sse?.kms_key_id && { 'x-amz-server-side-encryption-aws-kms-key-id': sse.kms_key_id }),
      ...(sse?.bucket_key && { 'x-amz-server-side-encryption-bucket-key-enabled': 'true' }),
    }
  }

  /** Sends a request. If the receiver asks for a checksum or a signature of the body, sends the request again with it. */
  async #ask(asked: Asked, signal: AbortSignal): Promise<Said> {
    try {
      return await this.#askOnce(asked, signal)
    } catch (error) {
      if (asked.method !== 'PUT' || !(error instanceof S3Refusal) || !this.#givesMore(error)) throw error
      return await this.#askOnce(asked, signal)
    }
  }

  #givesMore({ status, message }: S3Refusal): boolean {
    if (!this.#hasDigest && /content-md5/i.test(message)) return (this.#hasDigest = true)
    if (this.#isSigned || (status !== 400 && status !== 403)) return false
    return (this.#isSigned = true)
  }

  async #askOnce({ method, key, query = {}, headers = {}, body = [] }: Asked, signal: AbortSignal): Promise<Said> {
    const { clock } = this.#context
    const { host, origin, pathname } = new URL(this.#url)
    const path = `${pathname === '/' ? '' : pathname}/${key.split('/').map(encodeUri).join('/')}`
    const place = `${method} ${this.#url}${key && `/${key}`}`
    const credentials = await this.#credentials.current(signal)
    const scope = { region: this.#region, service: 's3' }
    const isContent = method === 'PUT'
    const all = isContent && this.#hasDigest ? { ...headers, ...digestOf(body) } : headers
    const covered = isContent && !this.#isSigned ? undefined : body
    const signed = sign({ method, host, path, query, headers: all, body: covered }, credentials, scope, clock.wall())
    const search = queryText(query)
    const sent = {
      target: new URL(origin),
      path: search ? `${path}?${search}` : path,
      method,
      headers: { 'user-agent': USER_AGENT, ...signed },
      body: { parts: body, bytes: sizeOfAll(body) },
    }
    const answer = await this.#transport.request(sent, this.#url, signal).catch(error => {
      if (error instanceof DeliveryError && error.failure === 'retry') this.#count(error.reason)
      throw error
    })
    const { statusCode: status, headers: said } = answer
    const etag = said.etag
    this.#count(String(status))
    if (isSuccess(status) && method === 'PUT') {
      await drain(answer.body)
      await answer.sent
      // A proxy may have answered without storing the object.
      if (etag === undefined) throw objectRefusal(502, 'the answer does not contain an ETag', place, {})
      return { text: '', etag }
    }
    // The response may repeat secrets from the headers of the request.
    const { secretAccessKey, sessionToken = '' } = credentials
    const hidden = [secretAccessKey, sessionToken, signed.authorization!.slice(-SIGNATURE_LENGTH)]
    const text = hideSecrets(await bodyText(answer.body), hidden)
    if (isSuccess(status)) return { text, etag, length: said['content-length'] }
    throw objectRefusal(status, text, place, {
      requestId: one(said['x-amz-request-id']),
      retryAfterMs: retryAfterMs(one(said['retry-after']), clock.wall()),
    })
  }

  #count(status: string): void {
    requestCounter(this.#context.metrics, status).value++
  }
}

/** Node.js in FIPS mode does not have MD5. */
const digestOf = (body: readonly Buffer[]): Record<string, string> =>
  getFips()
    ? { 'x-amz-checksum-sha256': digest('sha256', body).digest('base64') }
    : { 'content-md5': digest('md5', body).digest('base64') }

const escaped = (text: string) => text.replace(/[<>&]/g, character => `&#${character.charCodeAt(0)};`)

const one = (header: string | string[] | undefined) => (Array.isArray(header) ? header[0] : header)

/** If `reach` is set, the configuration is managed, and must not read the environment. */
export function regionOf({ region }: S3Options, { reach }: Pick<ComponentContext, 'reach'>): string {
  const { AWS_REGION, AWS_DEFAULT_REGION } = reach ? {} : (process.env as Record<string, string | undefined>)
  // A variable may be empty.
  return region ?? (AWS_REGION || AWS_DEFAULT_REGION || 'us-east-1')
}

export function bucketUrl({ bucket, endpoint, path_style }: S3Options, region: string): string {
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com'
  const base = new URL(endpoint ?? `https://s3.${region}.${domain}`)
  // The certificates of AWS do not cover bucket names with dots.
  const isPath = path_style ?? (endpoint !== undefined || bucket.includes('.'))
  if (isPath) return `${withoutSlash(base.href)}/${bucket}`
  base.hostname = `${bucket}.${base.hostname}`
  return withoutSlash(base.href)
}
