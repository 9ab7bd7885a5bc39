/**
 * The Kafka protocol from @platformatic/kafka: requests, responses, SASL and checksums. `npm run build bundles` bundles
 * these modules, because the whole package brings 20 others. Sluice implements connections, retries and sequence
 * numbers itself, for the reasons in docs/decisions/receivers.md.
 */

/** The connection through which the functions of the Kafka client send requests. */
export interface KafkaSender {
  send(
    apiKey: number,
    version: number,
    payload: () => Payload,
    parse: Parse<unknown>,
    hasTags: boolean,
    hasAnswerTags: boolean,
    callback: Callback<unknown>,
  ): void
}

export interface Payload {
  readonly buffers: readonly Buffer[]
}
export type Parse<T> = (correlation: number, apiKey: number, version: number, reader: object) => T
export type Callback<T> = (error: Error | null, answer?: T) => void
export type Api<A extends readonly unknown[], T> = (sender: KafkaSender, ...args: [...A, Callback<T>]) => void

export interface ApiVersions {
  readonly apiKeys: readonly { readonly apiKey: number; readonly maxVersion: number }[]
}

export interface Metadata {
  readonly clusterId: string | null
  readonly brokers: readonly { readonly nodeId: number; readonly host: string; readonly port: number }[]
  readonly topics: readonly {
    readonly errorCode: number
    readonly partitions: readonly { readonly partitionIndex: number; readonly leaderId: number }[]
    readonly topicAuthorizedOperations: number
  }[]
}

export interface Produced {
  readonly throttleTimeMs: number
  readonly responses: readonly {
    readonly partitionResponses: readonly {
      readonly index: number
      readonly errorCode: number
      readonly errorMessage: string | null
      readonly recordErrors: readonly { readonly batchIndex: number; readonly batchIndexErrorMessage: string | null }[]
    }[]
  }[]
}

export interface Authenticated {
  readonly authBytes: Buffer
  readonly sessionLifetimeMs: bigint
}

type Authenticate = Api<[bytes: Buffer], Authenticated>
type ScramCrypto = {
  readonly hi: (definition: object, password: string, salt: Buffer, iterations: number) => Promise<Buffer>
}

export interface KafkaClient {
  readonly apiVersionsV3: { readonly api: Api<[name: string, version: string], ApiVersions> }
  readonly metadataV9: { readonly api: Api<[topics: string[], create: boolean, rights: boolean], Metadata> }
  readonly initProducerIdV3: {
    readonly api: Api<
      [transaction: null, timeoutMs: number, id: bigint, epoch: number],
      { readonly producerId: bigint; readonly producerEpoch: number }
    >
  }
  readonly produceV9: { readonly parseResponse: Parse<Produced> }
  readonly saslHandshakeV1: { readonly api: Api<[mechanism: string], unknown> }
  readonly saslAuthenticateV2: { readonly api: Authenticate }
  readonly saslPlain: {
    authenticate(
      api: Authenticate,
      to: KafkaSender,
      user: string,
      password: string,
      done: Callback<Authenticated>,
    ): void
  }
  readonly saslScramSha: {
    authenticate(
      api: Authenticate,
      to: KafkaSender,
      algorithm: 'SHA-256' | 'SHA-512',
      user: string,
      password: string,
      crypto: ScramCrypto,
      done: Callback<Authenticated>,
    ): void
    readonly defaultCrypto: ScramCrypto
  }
  readonly saslOAuthBearer: {
    authenticate(api: Authenticate, to: KafkaSender, token: string, more: object, done: Callback<Authenticated>): void
  }
  readonly Reader: { from(bytes: Buffer): object }
  readonly protocolErrorsCodesById: Readonly<Record<number, string>>
  readonly compressionsAlgorithms: Readonly<Record<'snappy' | 'lz4', { compressSync(bytes: Buffer): Buffer }>>
  crc32c(bytes: Buffer): number
}

/** Loaded only for configurations with Kafka. */
export const loadKafka = async () => (await import(new URL('../bundle/kafka.js', import.meta.url).href)) as KafkaClient
