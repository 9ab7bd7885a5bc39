import type { z } from 'zod'
import type {
  AccountDocument,
  AuditDocument,
  ChangedFeatureDocument,
  CreatedAccountDocument,
  CreatedUserKeyDocument,
  DaemonDocument,
  FeatureDocument,
  InvitedUserDocument,
  KeyedServiceAccountDocument,
  PipelineDocument,
  PublishedDocument,
  PublishedPipelineDocument,
  RevisionDocument,
  SecretDocument,
  ServiceAccountDocument,
  TokenDocument,
  UserDocument,
  UserKeyDocument,
} from './documents.js'
import type {
  accountInput,
  invitationInput,
  pipelineInput,
  pipelineUpdate,
  publishInput,
  reportInput,
  rotateInput,
  serviceAccountInput,
  userInput,
  userKeyInput,
  userUpdate,
} from './inputs.js'
import { type Answered, type ApiClientOptions, ApiTransport, type RequestOptions, ServiceError } from './transport.js'

/** A typed client of the service, with one method for each API call. */

/** One page of a list. Pass `next` as `after` to get the following page. On the last page, `next` is null. */
export interface ListPage<T> {
  readonly items: T[]
  readonly next: string | null
}

export interface PageOptions {
  readonly limit?: number
  readonly after?: string
}

/** An entity with its ETag, for conditional updates. */
export type WithEtag<T> = T & { readonly etag: string }

interface Condition {
  /** Applies the change only if the pipeline still has this ETag; otherwise throws ServiceError 412. */
  readonly ifMatch?: string
}

interface IngestOptions {
  /** Identifies the batch: repeated requests with the same key are counted once. */
  readonly idempotencyKey?: string
  readonly contentType?: string
  readonly contentEncoding?: string
}

/** Returns the data of an answer. Throws if the answer has no data, because then another program has sent it. */
function data<T>(answer: Answered): T {
  const { data } = (answer.body ?? {}) as { data?: T }
  if (data === undefined) throw new ServiceError(answer)
  return data
}

const withEtag = <T>(answer: Answered): WithEtag<T> => ({
  ...data<T>(answer),
  etag: answer.headers.get('etag') ?? '',
})
const part = (text: string): string => encodeURIComponent(text)

/** Base class of the method groups, with shared requests. */
class Calls {
  readonly transport: ApiTransport

  constructor(transport: ApiTransport) {
    this.transport = transport
  }

  async list<T>(path: string, page: PageOptions): Promise<ListPage<T>> {
    const answer = await this.transport.request('GET', path, { query: { ...page } })
    const items = data<T[]>(answer)
    const { meta } = answer.body as { meta: { page: { next: string | null } } }
    return { items, next: meta.page.next }
  }

  async get<T>(path: string): Promise<T> {
    return data(await this.transport.request('GET', path))
  }

  async send<T>(method: 'POST' | 'PUT', path: string, json: unknown): Promise<T> {
    return data(await this.transport.request(method, path, { json }))
  }

  async remove(path: string, headers: RequestOptions['headers'] = {}): Promise<void> {
    await this.transport.request('DELETE', path, { headers })
  }
}

class Pipelines extends Calls {
  all = (page: PageOptions = {}) => this.list<PipelineDocument>('/v3/pipeline', page)
  one = async (id: string) =>
    withEtag<PipelineDocument>(await this.transport.request('GET', `/v3/pipeline/${part(id)}`))
  create = async (input: z.input<typeof pipelineInput>) =>
    withEtag<PipelineDocument>(await this.transport.request('POST', '/v3/pipeline', { json: input }))
  update = async (id: string, input: z.input<typeof pipelineUpdate>, { ifMatch }: Condition = {}) =>
    withEtag<PipelineDocument>(
      await this.transport.request('PUT', `/v3/pipeline/${part(id)}`, {
        json: input,
        headers: { 'if-match': ifMatch },
      }),
    )
  delete = (id: string, { ifMatch }: Condition = {}) => this.remove(`/v3/pipeline/${part(id)}`, { 'if-match': ifMatch })
  /** Publishes the latest or the given revision. To roll back, publish an earlier revision. */
  publish = async (id: string, input: z.input<typeof publishInput> = {}, { ifMatch }: Condition = {}) =>
    withEtag<PublishedPipelineDocument>(
      await this.transport.request('POST', `/v3/pipeline/${part(id)}/publish`, {
        json: input,
        headers: { 'if-match': ifMatch },
      }),
    )
  published = async (id: string) =>
    withEtag<PublishedDocument>(await this.transport.request('GET', `/v3/pipeline/${part(id)}/published`))
  revisions = (id: string, page: PageOptions = {}) =>
    this.list<RevisionDocument>(`/v3/pipeline/${part(id)}/revision`, page)
  revision = (id: string, revision: number) =>
    this.get<RevisionDocument>(`/v3/pipeline/${part(id)}/revision/${revision}`)
}

class Secrets extends Calls {
  all = (page: PageOptions = {}) => this.list<SecretDocument>('/v3/secret', page)
  set = (name: string, value: string) => this.send<SecretDocument>('PUT', `/v3/secret/${part(name)}`, { value })
  delete = (name: string) => this.remove(`/v3/secret/${part(name)}`)
}

class ServiceAccounts extends Calls {
  all = (page: PageOptions = {}) => this.list<ServiceAccountDocument>('/v3/service-account', page)
  one = (id: string) => this.get<ServiceAccountDocument>(`/v3/service-account/${part(id)}`)
  create = (input: z.input<typeof serviceAccountInput> = {}) =>
    this.send<KeyedServiceAccountDocument>('POST', '/v3/service-account', input)
  delete = (id: string) => this.remove(`/v3/service-account/${part(id)}`)
  /** Issues a new key. The old key is revoked immediately, or after `grace`. */
  rotate = (id: string, input: z.input<typeof rotateInput> = {}) =>
    this.send<KeyedServiceAccountDocument>('POST', `/v3/service-account/${part(id)}/key/rotate`, input)
  revoke = (id: string) => this.remove(`/v3/service-account/${part(id)}/key`)
}

class Users extends Calls {
  all = (page: PageOptions = {}) => this.list<UserDocument>('/v3/user', page)
  one = (id: string) => this.get<UserDocument>(`/v3/user/${part(id)}`)
  create = (input: z.input<typeof userInput>) => this.send<InvitedUserDocument>('POST', '/v3/user', input)
  update = (id: string, input: z.input<typeof userUpdate>) =>
    this.send<UserDocument>('PUT', `/v3/user/${part(id)}`, input)
  invite = (id: string, input: z.input<typeof invitationInput> = {}) =>
    this.send<InvitedUserDocument>('POST', `/v3/user/${part(id)}/invite`, input)
  delete = (id: string) => this.remove(`/v3/user/${part(id)}`)
}

/** Personal keys of the user whose key the client uses. */
class Keys extends Calls {
  all = (page: PageOptions = {}) => this.list<UserKeyDocument>('/v3/user/key', page)
  create = (input: z.input<typeof userKeyInput> = {}) =>
    this.send<CreatedUserKeyDocument>('POST', '/v3/user/key', input)
  revoke = (id: string) => this.remove(`/v3/user/key/${part(id)}`)
}

class Accounts extends Calls {
  all = (page: PageOptions = {}) => this.list<AccountDocument>('/v3/enterprise/account', page)
  create = (input: z.input<typeof accountInput>) =>
    this.send<CreatedAccountDocument>('POST', '/v3/enterprise/account', input)
  current = () => this.get<AccountDocument>('/v3/account')
  feature = (name: string) => this.get<FeatureDocument>(`/v3/account/feature/${part(name)}`)
  setFeature = (feature: string, enabled: boolean) =>
    this.send<ChangedFeatureDocument>('PUT', `/v3/account/feature/${part(feature)}`, { enabled })
}

export class Client {
  readonly pipelines: Pipelines
  readonly secrets: Secrets
  readonly serviceAccounts: ServiceAccounts
  readonly users: Users
  readonly keys: Keys
  readonly accounts: Accounts
  readonly #calls: Calls

  constructor(options: ApiClientOptions | ApiTransport) {
    const transport = options instanceof ApiTransport ? options : new ApiTransport(options)
    this.#calls = new Calls(transport)
    this.pipelines = new Pipelines(transport)
    this.secrets = new Secrets(transport)
    this.serviceAccounts = new ServiceAccounts(transport)
    this.users = new Users(transport)
    this.keys = new Keys(transport)
    this.accounts = new Accounts(transport)
  }

  /** Returns a client that has the same key and acts in another account of the enterprise. */
  within(accountId: string): Client {
    return new Client(this.#calls.transport.within(accountId))
  }

  /** Sends a request to any path (`/v3/…`). Use this for API calls that have no method here. */
  request(method: string, path: string, options: RequestOptions = {}): Promise<Answered> {
    return this.#calls.transport.request(method, path, options)
  }

  /** Describes the key of this client. */
  whoami(): Promise<TokenDocument> {
    return this.#calls.get('/v3/auth/token')
  }

  /** Whether the key is valid. Throws if the service cannot be reached. */
  async validate(): Promise<boolean> {
    try {
      await this.whoami()
      return true
    } catch (error) {
      if (error instanceof ServiceError && (error.status === 401 || error.status === 403)) return false
      throw error
    }
  }

  /** Sends events: objects, or a body that is already encoded. Resolves when the service has stored them durably. */
  async ingest(pipelineId: string, events: Iterable<object> | Uint8Array | string, options: IngestOptions = {}) {
    const ready = typeof events === 'string' || events instanceof Uint8Array
    const body = ready ? events : Array.from(events, event => `${JSON.stringify(event)}\n`).join('')
    await this.request('POST', `/v3/ingest/${part(pipelineId)}`, {
      body,
      headers: {
        'content-type': options.contentType ?? 'application/x-ndjson',
        'content-encoding': options.contentEncoding,
        'idempotency-key': options.idempotencyKey,
      },
      repeatable: options.idempotencyKey !== undefined,
    })
  }

  fleet(page: PageOptions = {}): Promise<ListPage<DaemonDocument>> {
    return this.#calls.list('/v3/fleet', page)
  }

  report(input: z.input<typeof reportInput>): Promise<DaemonDocument> {
    return this.#calls.send('POST', '/v3/fleet/report', input)
  }

  audit(page: PageOptions = {}): Promise<ListPage<AuditDocument>> {
    return this.#calls.list('/v3/audit', page)
  }
}

/** Iterates over a list page by page: `everything(page => client.users.all(page))`. */
export async function* everything<T>(list: (page: PageOptions) => Promise<ListPage<T>>): AsyncGenerator<T> {
  let after: string | null | undefined
  do {
    const { items, next } = await list({ limit: 100, ...(after ? { after } : {}) })
    yield* items
    after = next
  } while (after !== null)
}
