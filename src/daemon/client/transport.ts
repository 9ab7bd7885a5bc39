import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { parseJsonWithin } from '../../lib/formats/json-text.js'
import { deadline, sleep, systemClock } from '../../lib/time.js'
import { formatSize } from '../../lib/units.js'
import { retryAfterMs } from '../../net/http/client/answers/statuses.js'
import { unreachableText } from './unreachable.js'

/** Sends requests to the service and parses responses. It does not know the routes. */

export interface ApiClientOptions {
  /** Base URL, `https://sluice.example`. A path in it becomes a prefix of /v3. */
  readonly url: string
  /** The access key. A function is called before each request, so the key can be rotated. */
  readonly key: string | (() => string | Promise<string>)
  /** Acts within this account. Only for keys of an enterprise service account. */
  readonly delegateAccountId?: string | undefined
  /**
   * Maximum retries after status 429 or 503, or while the service cannot be reached; default 2. A request that changes
   * something is repeated only if the service did not process it.
   */
  readonly retries?: number
  /** Time limit of one attempt in milliseconds; default 30,000. */
  readonly timeoutMs?: number
  readonly fetch?: typeof globalThis.fetch
}

export interface RequestOptions {
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly json?: unknown
  /** Body, sent unchanged. Set its content type in `headers`. */
  readonly body?: Uint8Array | string
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Whether the request can be repeated safely. GET and HEAD always can. */
  readonly repeatable?: boolean
  /** Maximum bytes of the answer, after decompression; default 32 MB. */
  readonly mostBytes?: number
}

export interface Answered {
  readonly status: number
  readonly headers: Headers
  /** The complete body as parsed JSON, or as text if it is not JSON; undefined if the body is empty. */
  readonly body: unknown
  readonly requestId: string | undefined
}

/** The service rejected the request or failed, or another program answered. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'
  readonly status: number
  /** A code in snake case. Programs may depend on the codes, because they do not change. */
  readonly code: string
  /** Every problem with the request, with its place. */
  readonly errors: readonly { readonly path: string; readonly message: string }[]
  readonly requestId: string | undefined
  readonly retryAfterMs: number | undefined
  readonly answer: Answered

  constructor(answer: Answered) {
    const { code, message, errors } = (answer.body ?? {}) as Partial<Record<'code' | 'message' | 'errors', unknown>>
    super(typeof message === 'string' ? message : textOf(answer))
    this.answer = answer
    this.status = answer.status
    this.code = typeof code === 'string' ? code : `status_${answer.status}`
    this.errors = Array.isArray(errors) ? errors : []
    this.requestId = answer.requestId
    this.retryAfterMs = retryAfterMs(answer.headers.get('retry-after') ?? undefined, systemClock.wall())
  }
}

/** The service did not respond, or its response is incomplete. `cause` is the error of fetch. */
export class UnreachableError extends Error {
  override readonly name = 'UnreachableError'

  constructor(url: string, error: unknown) {
    super(`cannot reach ${url}: ${unreachableText(url, error)}`, { cause: error })
  }
}

const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 30_000
/** The largest page of a list has 100 pipelines of 128 KiB. */
const MOST_BYTES = 32_000_000
/** A JSON answer may have one value per this many bytes of its maximum size. With more values, it is kept as text. */
const BYTES_PER_VALUE = 16

export class ApiTransport {
  readonly #options: ApiClientOptions
  readonly #base: string

  constructor(options: ApiClientOptions) {
    const { protocol, origin, pathname } = new URL(options.url)
    if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError('url must begin with http:// or https://')
    this.#options = options
    this.#base = origin + pathname.replace(/\/+$/, '')
  }

  /** Returns a transport that uses the same service and key, and acts in another account. */
  within(delegateAccountId: string | undefined): ApiTransport {
    return new ApiTransport({ ...this.#options, delegateAccountId })
  }

  /** Resolves with a response of status 2xx or 304. Throws ServiceError for other statuses, or UnreachableError. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answered> {
    const { retries = 2 } = this.#options
    const repeatable = options.repeatable ?? (method === 'GET' || method === 'HEAD')
    for (let tried = 0; ; tried++) {
      const last = tried >= retries
      let wait = FIRST_WAIT_MS * 2 ** tried
      try {
        const answer = await this.#once(method, path, options)
        if (answer.status < 300 || answer.status === 304) return answer
        const error = new ServiceError(answer)
        const notTaken = answer.status === 429 || (answer.status === 503 && repeatable)
        wait = error.retryAfterMs ?? wait
        if (last || !notTaken || wait > LONGEST_WAIT_MS) throw error
      } catch (error) {
        if (last || error instanceof ServiceError || !repeatable) throw error
      }
      await sleep(wait)
    }
  }

  async #once(method: string, path: string, options: RequestOptions): Promise<Answered> {
    const { key, delegateAccountId, timeoutMs = 30_000, fetch = globalThis.fetch } = this.#options
    const headers = new Headers({ accept: 'application/json' })
    headers.set('authorization', `Token ${typeof key === 'string' ? key : await key()}`)
    if (delegateAccountId !== undefined) headers.set('x-delegate-account-id', delegateAccountId)
    if (options.json !== undefined) headers.set('content-type', 'application/json')
    for (const [name, value] of Object.entries(options.headers ?? {})) if (value !== undefined) headers.set(name, value)
    const body = options.json === undefined ? options.body : JSON.stringify(options.json)
    const url = this.#base + path + queryText(options.query)
    const limit = deadline(timeoutMs)
    try {
      const response = await fetch(url, {
        method,
        headers,
        ...(body === undefined ? {} : { body: body as NonNullable<RequestInit['body']> }),
        redirect: 'manual',
        signal: limit.signal,
      })
      const { mostBytes = MOST_BYTES } = options
      const content = await readWithin(response, mostBytes)
      return {
        status: response.status,
        headers: response.headers,
        body: readBody(content, mostBytes / BYTES_PER_VALUE),
        requestId: response.headers.get('x-request-id') ?? undefined,
      }
    } catch (error) {
      throw new UnreachableError(this.#base, error)
    } finally {
      limit.clear()
    }
  }
}

function textOf({ status, headers }: Answered): string {
  if (status >= 400) return `the service answered ${status}`
  const location = headers.get('location')
  if (location !== null) return `it redirects to ${location}; redirects are not followed`
  return 'this is not a response of a Sluice service'
}

/** Reads a body. Throws as soon as it is too long. Copies the parts, because small parts would take far more memory. */
async function readWithin({ body }: Response, mostBytes: number): Promise<Buffer> {
  const content = new GrowingBytes()
  for await (const { buffer, byteOffset, length } of body ?? []) {
    if (content.length + length > mostBytes) throw new Error(`its answer is longer than ${formatSize(mostBytes)}`)
    content.add(Buffer.from(buffer, byteOffset, length), 0, length)
  }
  return content.bytes.subarray(0, content.length)
}

function readBody(content: Buffer, mostValues: number): unknown {
  if (content.length === 0) return undefined
  try {
    return parseJsonWithin(content, mostValues)
  } catch {
    return content.toString()
  }
}

function queryText(query: RequestOptions['query'] = {}): string {
  const parts = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parts.set(name, String(value))
  const text = parts.toString()
  return text && `?${text}`
}
