import type { ComponentContext } from '../../core/component.js'
import { DeliveryError, errorCode } from '../../core/errors.js'
import { BoundedMap } from '../../lib/bounded-map.js'
import { hideSecrets } from '../../lib/formats/escapes.js'
import { printable } from '../../lib/printable.js'
import { deadline, orAborted } from '../../lib/time.js'
import { coded } from '../dial.js'
import { Dialer } from '../dialer.js'
import { AccessKey } from '../key.js'
import type { Api, Authenticated, Callback, KafkaClient, Metadata } from './client.js'
import { KafkaConnection, NOT_AUTHENTICATED, PRODUCE, ProtocolProblem, software } from './connection.js'
import { isSentPlainly, type KafkaClusterOptions, MECHANISMS } from './options.js'
import { CODES, meaningOf, refusal } from './refusals.js'

/** After this time, the partitions of a topic are looked up again, since there may be more of them. */
const MAX_AGE_MS = 5 * 60_000
/** How long a topic may be unknown after its first use. During this time, brokers may still be creating it. */
const CREATION_MS = 5000
const MOST_TOPICS = 10_000
/** Limit of SCRAM iterations. With more, a server could block a thread for hours. */
const MOST_ITERATIONS = 1_000_000
/** A connection is replaced after this share of the lifetime that its broker gives it. */
const SESSION_SHARE = 0.8
const LONGEST_TEXT = 500
/** The bit of the Write permission, and the value from a broker that does not report permissions. */
const WRITE = 1 << 4
const UNKNOWN_RIGHTS = -(2 ** 31)

/** `leaders`: broker id of the leader by partition, or -1 without a leader. `at`: monotonic time of the lookup. */
export interface Topic {
  readonly leaders: readonly number[]
  readonly at: number
}

/** The brokers of a cluster. Provides ids of producers, the leaders of partitions, and connections to brokers. */
export class KafkaCluster {
  readonly client: KafkaClient
  readonly #options: KafkaClusterOptions
  readonly #context: ComponentContext
  readonly #dialer: Dialer
  readonly #key: AccessKey | undefined
  readonly #connections = new Map<string, Promise<KafkaConnection>>()
  readonly #topics = new BoundedMap<string, Topic>(MOST_TOPICS)
  readonly #unknownSince = new BoundedMap<string, number>(MOST_TOPICS)
  /** URL of each broker, by id. */
  #brokers = new Map<number, string>()
  /** The cluster id. Another cluster may appear at the same addresses. */
  id: string | null | undefined
  #last: string | undefined
  /** Places that failed since the last success. They are tried last, as an attempt may end before all are tried. */
  readonly #failed = new Set<string>()
  #isClosed = false

  constructor(options: KafkaClusterOptions, context: ComponentContext, client: KafkaClient) {
    const { auth, connect_timeout, proxy, tls = {} } = options
    this.#options = options
    this.#context = context
    this.client = client
    this.#dialer = new Dialer({ connect_timeout, proxy, tls }, context)
    if (auth.type === 'none') return
    if (isSentPlainly(options)) context.log.warn('the password or the token is sent without encryption; set "tls"')
    const { key, key_file, credential, exec, password, password_file } = auth
    const source = { key: key ?? password, key_file: key_file ?? password_file, credential, exec }
    const what = auth.type === 'oauthbearer' ? 'access key' : 'password'
    this.#key = new AccessKey(source, context.log, context.reach, what)
  }

  /** Reads the key and the certificates. Throws a DeliveryError. */
  async open(): Promise<void> {
    await this.#key?.current()
    await this.#dialer.open(this.#url(this.#options.brokers[0]!), () => this.#retireAll())
  }

  /** Whether something changed that justifies an immediate attempt. */
  async changed(): Promise<boolean> {
    const [key, files] = await Promise.all([this.#key?.changed() ?? false, this.#dialer.changed()])
    return key || files
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#dialer.close()
    this.#retireAll(connection => connection.destroy(new Error('closing')))
  }

  /** Looks up partitions. `failure`: for errors that concern only this topic. `mayCreate`: brokers may create it. */
  async topic(
    name: string,
    signal: AbortSignal,
    failure: 'hold' | 'reject' = 'hold',
    mayCreate = true,
  ): Promise<Topic> {
    const { clock } = this.#context
    const known = this.#topics.get(name)
    if (known && clock.now() - known.at < MAX_AGE_MS) return known
    const { topics } = await this.#metadata([name], mayCreate, signal)
    const { errorCode = CODES.UNKNOWN_TOPIC, partitions = [] } = topics[0] ?? {}
    if (errorCode === 0 && partitions.length > 0) {
      this.#unknownSince.delete(name)
      const leaders: number[] = Array.from({ length: partitions.length }, () => -1)
      for (const { partitionIndex, leaderId } of partitions)
        if (partitionIndex < leaders.length) leaders[partitionIndex] = leaderId
      const topic = { leaders, at: clock.now() }
      this.#topics.set(name, topic)
      return topic
    }
    const since = this.#unknownSince.get(name) ?? clock.now()
    this.#unknownSince.set(name, since)
    const isNew = errorCode === CODES.UNKNOWN_TOPIC && mayCreate && clock.now() - since < CREATION_MS
    throw this.refusal(errorCode, `topic ${name}`, '', isNew ? 'retry' : meaningOf(errorCode).isOfTopic && failure)
  }

  /** Forgets the partitions of a topic. The next use of the topic looks them up again. */
  forget(topic: string): void {
    this.#topics.delete(topic)
  }

  /** Whether this user may write to an existing topic. Undefined if the broker does not report permissions. */
  async mayWrite(topic: string, signal: AbortSignal): Promise<boolean | undefined> {
    const { topics } = await this.#metadata([topic], false, signal, true)
    const rights = topics[0]?.topicAuthorizedOperations ?? UNKNOWN_RIGHTS
    return rights === UNKNOWN_RIGHTS ? undefined : (rights & WRITE) !== 0
  }

  async newProducer(signal: AbortSignal): Promise<{ readonly id: bigint; readonly epoch: number }> {
    const [place, connection] = await this.#any(signal)
    const asked = this.#ask(connection, place, this.client.initProducerIdV3.api, [null, 60_000, -1n, -1], signal)
    const { producerId, producerEpoch } = await asked
    return { id: producerId, epoch: producerEpoch }
  }

  /** Connects to a broker, at the address that the broker advertises. */
  async broker(id: number, signal: AbortSignal): Promise<KafkaConnection> {
    const place = this.#brokers.get(id)
    if (place === undefined) {
      const text = `broker ${id} is not in the cluster, or advertises an invalid address: see its advertised.listeners`
      throw new DeliveryError(text, { failure: 'retry', reason: 'leader' })
    }
    try {
      return await this.#connect(place, signal)
    } catch (error) {
      signal.throwIfAborted()
      const isOfAddress = error instanceof DeliveryError && (error.failure === 'retry' || error.reason === 'protocol')
      if (!isOfAddress || this.#options.brokers.includes(place)) throw error
      const { message, failure, reason } = error
      const advice = `; broker ${id} advertises this address: see its advertised.listeners`
      throw new DeliveryError(message + advice, { failure, reason, cause: error })
    }
  }

  refusal(
    code: number,
    who: string,
    said: string | null = '',
    failure?: 'retry' | 'hold' | 'reject' | undefined,
  ): DeliveryError {
    const name = this.client.protocolErrorsCodesById[code] ?? `error ${code}`
    const isToken = code === CODES.REFUSED && this.#options.auth.type === 'oauthbearer'
    const advice = isToken ? 'the token was refused' : undefined
    const error = refusal(code, name, who, this.#shown(said ?? ''), { failure, advice })
    if (code !== CODES.REFUSED) return error
    const message = `${error.message}; put a new one ${this.#key?.place ?? 'in the configuration'}`
    return new DeliveryError(message, { failure: 'hold', reason: error.reason })
  }

  explainBroker(error: unknown, id: number): DeliveryError {
    return this.#explain(error, this.#brokers.get(id) ?? this.#options.brokers[0]!)
  }

  /** `onClose`: advice to add if the connection was closed. */
  #explain(error: unknown, place: string, onClose = ''): DeliveryError {
    if (error instanceof DeliveryError) return error
    const shown = shownPlace(place)
    const code = codeOf(error)
    if (code !== undefined) return this.refusal(code, shown, messageOf(error))
    if (errorCode(error) === NOT_AUTHENTICATED) {
      const { cause, message } = error as Error
      if (cause) return this.#explain(cause, place)
      return new DeliveryError(this.#shown(`${shown}: ${message}`), { failure: 'hold', reason: 'auth' })
    }
    if (error instanceof ProtocolProblem)
      return new DeliveryError(`${shown}: ${error.message}`, { failure: 'hold', reason: 'protocol', cause: error })
    const { failure, reason, message } = this.#dialer.explain(error, shown, this.#url(place).href)
    return new DeliveryError(this.#shown(message + (reason === 'reset' ? onClose : '')), { failure, reason })
  }

  /** Advice if a broker closes a new connection: what the broker may expect from the client. */
  #wanted(connection: KafkaConnection | undefined): string {
    const { tls } = this.#options
    if (!connection) return tls ? '; it may not speak TLS there: see "tls"' : ''
    if (connection.answers === 0) return `; it may expect ${tls ? '"auth"' : '"auth", or "tls"'}`
    return connection.answers === 1 && !this.#key ? '; it may expect "auth"' : ''
  }

  async #metadata(topics: string[], mayCreate: boolean, signal: AbortSignal, rights = false): Promise<Metadata> {
    const [place, connection] = await this.#any(signal)
    const args: [string[], boolean, boolean] = [topics, mayCreate, rights]
    // If the response reports an error of a topic or partition, the client throws an error that contains the response.
    const asked = connection.ask(this.client.metadataV9.api, args, signal)
    const metadata = await asked.catch((error): Metadata => {
      const { response } = error as { response?: Metadata }
      if (response) return response
      throw this.#explain(error, place, this.#wanted(connection))
    })
    const brokers = metadata.brokers.map(({ nodeId, host, port }) => [nodeId, urlOf(host, port)] as const)
    this.#brokers = new Map(brokers.filter(([, url]) => URL.canParse(url)))
    if (metadata.clusterId !== this.id) this.#topics.clear()
    this.id = metadata.clusterId
    return metadata
  }

  async #ask<A extends readonly unknown[], T>(
    connection: KafkaConnection,
    place: string,
    api: Api<A, T>,
    args: A,
    signal: AbortSignal,
  ): Promise<T> {
    try {
      return await connection.ask(api, args, signal)
    } catch (error) {
      signal.throwIfAborted()
      throw this.#explain(error, place, this.#wanted(connection))
    }
  }

  /** A connection to the first broker that answers. */
  async #any(signal: AbortSignal): Promise<[place: string, connection: KafkaConnection]> {
    const places = new Set([...(this.#last ? [this.#last] : []), ...this.#options.brokers, ...this.#brokers.values()])
    let failed: unknown
    const isFailed = (place: string) => Number(this.#failed.has(place))
    for (const place of [...places].sort((a, b) => isFailed(a) - isFailed(b)))
      try {
        const connection = await this.#connect(place, signal)
        this.#failed.clear()
        this.#last = place
        return [place, connection]
      } catch (error) {
        this.#failed.add(place)
        signal.throwIfAborted()
        this.#last = undefined
        // An error that only an operator can fix is kept, because it must be reported even if another broker is down.
        if (!(failed instanceof DeliveryError && failed.failure === 'hold')) failed = error
      }
    throw failed
  }

  async #connect(place: string, signal: AbortSignal): Promise<KafkaConnection> {
    await this.#dialer.renew(true)
    signal.throwIfAborted()
    const known = this.#connections.get(place)
    const dialing = known ?? this.#open(place)
    if (!known) {
      this.#connections.set(place, dialing)
      const drop = () => this.#drop(place, dialing)
      dialing.then(connection => connection.onClose(drop), drop)
    }
    await orAborted(dialing, signal)
    signal.throwIfAborted()
    const connection = await dialing
    if (connection.isOpen && (!known || this.#context.clock.now() < connection.expiresAt)) return connection
    connection.retire()
    this.#drop(place, dialing)
    if (!known) throw this.#explain(coded('ECONNRESET', 'the broker closed the connection'), place)
    return await this.#connect(place, signal)
  }

  #drop(place: string, dialing: Promise<KafkaConnection>): void {
    if (this.#connections.get(place) === dialing) this.#connections.delete(place)
    // Another broker may lead the partitions now, or another cluster may have the address of the broker.
    this.#topics.clear()
  }

  async #open(place: string): Promise<KafkaConnection> {
    const { reach, clock } = this.#context
    const shown = shownPlace(place)
    if (reach && !this.#options.brokers.includes(place)) {
      const text = `a published pipeline connects only to the brokers in "brokers", but ${shown} is another broker of the cluster`
      throw new DeliveryError(text, { failure: 'hold', reason: 'address_denied' })
    }
    const limit = deadline(this.#options.connect_timeout, undefined, (ms, fn) => clock.after(ms, fn))
    let connection: KafkaConnection | undefined
    try {
      connection = new KafkaConnection(this.client, await this.#dialer.dial(this.#url(place)))
      if (this.#isClosed) throw new Error('closing')
      const offered = await connection.ask(this.client.apiVersionsV3.api, software(), limit.signal).catch(error => {
        // Brokers before Kafka 2.4 respond in an older format.
        if (error instanceof ProtocolProblem && connection!.answers > 0) return undefined
        throw error
      })
      const produce = offered?.apiKeys.find(({ apiKey }) => apiKey === PRODUCE.key)
      if (offered && !produce)
        throw new ProtocolProblem('it does not accept messages (is it a controller?): see "brokers"')
      if (!produce || produce.maxVersion < PRODUCE.version) throw this.refusal(CODES.VERSION, shown)
      await this.#authenticate(connection, shown, limit.signal)
      connection.isReady = true
      return connection
    } catch (error) {
      connection?.destroy(new Error('closing'))
      if (!limit.signal.aborted) throw this.#explain(error, place, this.#wanted(connection))
      throw new DeliveryError(`${shown}: no answer after connecting`, { failure: 'retry', reason: 'connect_timeout' })
    } finally {
      limit.clear()
    }
  }

  async #authenticate(connection: KafkaConnection, place: string, signal: AbortSignal): Promise<void> {
    const { type, username = '' } = this.#options.auth
    const { name } = MECHANISMS[type]
    if (!this.#key || name === undefined) return
    const { saslHandshakeV1, saslAuthenticateV2, saslPlain, saslScramSha, saslOAuthBearer } = this.client
    const key = await this.#key.current()
    await connection.ask(saslHandshakeV1.api, [name], signal).catch(error => {
      const offered = (error as { response?: { mechanisms: string[] } }).response?.mechanisms
      if (!offered) throw error
      const others = offered.join(', ') || 'none: is that its port for SASL?'
      throw this.refusal(CODES.NO_MECHANISM, place, `${name} is not offered; the broker offers ${others}`)
    })
    const { api } = saslAuthenticateV2
    const { defaultCrypto } = saslScramSha
    const work = (done: Callback<Authenticated>) => {
      if (type === 'plain') saslPlain.authenticate(api, connection, username, key, done)
      else if (type === 'oauthbearer') saslOAuthBearer.authenticate(api, connection, key, {}, done)
      else
        saslScramSha.authenticate(
          api,
          connection,
          type === 'scram_sha_256' ? 'SHA-256' : 'SHA-512',
          username,
          key,
          {
            ...defaultCrypto,
            async hi(definition, password, salt, iterations) {
              if (iterations > MOST_ITERATIONS) throw new ProtocolProblem('it asks for too many iterations of SCRAM')
              return await defaultCrypto.hi(definition, password, salt, iterations)
            },
          },
          done,
        )
    }
    const { authBytes, sessionLifetimeMs } = await connection.run(work, signal)
    // To reject a token, a broker sends a text and then waits for a response.
    if (type === 'oauthbearer' && authBytes.length > 0)
      throw this.refusal(CODES.REFUSED, name, authBytes.toString('utf8', 0, LONGEST_TEXT))
    if (sessionLifetimeMs > 0n)
      connection.expiresAt = this.#context.clock.now() + Number(sessionLifetimeMs) * SESSION_SHARE
  }

  #retireAll(end = (connection: KafkaConnection) => connection.retire()): void {
    for (const dialing of this.#connections.values()) dialing.then(end, () => {})
    this.#connections.clear()
  }

  #url(place: string): URL {
    return new URL(place.replace('kafka:', this.#options.tls ? 'tls:' : 'tcp:'))
  }

  /** A broker's text on one line, without passwords. */
  #shown(text: string): string {
    return printable(hideSecrets(text, [...(this.#key?.known ?? []), ...this.#dialer.secrets])).slice(0, LONGEST_TEXT)
  }
}

const shownPlace = (place: string) => place.replace('kafka://', '')
const urlOf = (host: string, port: number) => `kafka://${host.includes(':') ? `[${host}]` : host}:${port}`

function codeOf(error: unknown): number | undefined {
  const { apiCode, errors = [], cause } = error as { apiCode?: number; errors?: unknown[]; cause?: unknown }
  if (typeof apiCode === 'number') return apiCode
  for (const inner of [...errors, cause]) {
    const code = inner instanceof Error ? codeOf(inner) : undefined
    if (code !== undefined) return code
  }
  return undefined
}

function messageOf(error: unknown): string {
  const {
    serverErrorMessage,
    errors = [],
    cause,
  } = error as {
    serverErrorMessage?: string | null
    errors?: unknown[]
    cause?: unknown
  }
  if (serverErrorMessage) return serverErrorMessage
  return [...errors, cause].map(inner => (inner instanceof Error ? messageOf(inner) : '')).find(Boolean) ?? ''
}
