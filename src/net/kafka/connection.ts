import type { Socket } from 'node:net'
import { errorCode } from '../../core/errors.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { sizeOfAll } from '../../lib/formats/parts.js'
import { packageVersion } from '../../lib/version.js'
import { writeAll } from '../connection.js'
import { coded } from '../dial.js'
import type { Api, Callback, KafkaClient, KafkaSender, Parse, Payload } from './client.js'

/** Maximum bytes of a response that are not explained by its request. When parsed, it takes 20 times the memory. */
const MOST_ANSWER_BYTES = 1024 * 1024
/** Maximum bytes while a connection is opened. The client's parsing time for SCRAM is quadratic in the length. */
const MOST_FIRST_BYTES = 8 * 1024
/** A larger size means that the bytes belong to another protocol. */
const MOST_SIZE = 256 * 1024 * 1024
/** The client's error code for failures within SASL. */
export const NOT_AUTHENTICATED = 'PLT_KFK_AUTHENTICATION'
const CLIENT_ID = Buffer.from('sluice')
/** The version of the produce request since Kafka 2.8. Its responses say which records were rejected. */
export const PRODUCE = { key: 0, version: 9 } as const

/** The server does not speak the Kafka protocol, or not the required version. */
export class ProtocolProblem extends Error {}

interface Asked {
  readonly parse: (frame: Buffer) => unknown
  readonly callback: Callback<unknown>
}

/** A connection to a broker. Connection and protocol errors close the connection. The caller then makes another. */
export class KafkaConnection implements KafkaSender {
  readonly #client: KafkaClient
  readonly #socket: Socket
  readonly #asked = new Map<number, Asked>()
  #correlation = 0
  /** Bytes of the largest request. A response may have an error for each event. */
  #largest = 0
  /** The received part of the next response. A list of one-byte chunks would take many times the memory. */
  readonly #received = new GrowingBytes()
  #isRetired = false
  /** Whether requests can be sent, after any authentication. */
  isReady = false
  answers = 0
  /** When to replace the connection, by the monotonic clock. The broker closes it soon after. */
  expiresAt = Number.POSITIVE_INFINITY

  constructor(client: KafkaClient, socket: Socket) {
    this.#client = client
    this.#socket = socket
    socket.on('data', chunk => this.#take(chunk))
    socket.on('error', error => this.destroy(error))
    socket.on('end', () => this.destroy(coded('ECONNRESET', 'the broker closed the connection')))
    socket.on('close', () => this.destroy(coded('ECONNRESET', 'the connection was closed')))
  }

  get isOpen(): boolean {
    return !this.#isRetired && !this.#socket.destroyed
  }

  onClose(closed: () => void): void {
    if (this.#socket.closed) closed()
    else this.#socket.once('close', closed)
  }

  /** Makes a request. An abort closes the connection, since the outcome is then unknown. */
  ask<A extends readonly unknown[], T>(api: Api<A, T>, args: A, signal: AbortSignal): Promise<T> {
    return this.run(callback => api(this, ...args, callback), signal)
  }

  /** Like `ask`, for several requests. `work` gets a callback, which is also called if the connection ends. */
  run<T>(work: (callback: Callback<T>) => void, signal: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const abort = () => {
        reject(signal.reason)
        this.destroy(coded('ECONNRESET', 'the connection was closed'))
      }
      signal.addEventListener('abort', abort)
      work((error, answer) => {
        signal.removeEventListener('abort', abort)
        if (error) reject(error)
        else resolve(answer as T)
      })
    })
  }

  produce(parts: readonly Buffer[], signal: AbortSignal) {
    const { key, version } = PRODUCE
    const { parseResponse } = this.#client.produceV9
    return this.ask(
      (sender, callback: Callback<ReturnType<typeof parseResponse>>) =>
        sender.send(key, version, () => ({ buffers: parts }), parseResponse, true, true, callback as never),
      [],
      signal,
    )
  }

  send(
    apiKey: number,
    version: number,
    payload: () => Payload,
    parse: Parse<unknown>,
    hasTags: boolean,
    hasAnswerTags: boolean,
    callback: Callback<unknown>,
  ): void {
    if (this.#socket.destroyed) {
      callback(coded('ECONNRESET', 'the connection was closed'))
      return
    }
    const { buffers } = payload()
    const correlation = (this.#correlation = (this.#correlation + 1) & 0x7fffffff)
    const head = Buffer.alloc(14 + CLIENT_ID.length + (hasTags ? 1 : 0))
    head.writeInt32BE(sizeOfAll(buffers) + head.length - 4)
    this.#largest = Math.max(this.#largest, head.readInt32BE())
    head.writeInt16BE(apiKey, 4)
    head.writeInt16BE(version, 6)
    head.writeInt32BE(correlation, 8)
    head.writeInt16BE(CLIENT_ID.length, 12)
    CLIENT_ID.copy(head, 14)
    const from = hasAnswerTags ? 5 : 4
    this.#asked.set(correlation, {
      parse: frame => parse(correlation, apiKey, version, this.#client.Reader.from(frame.subarray(from))),
      callback,
    })
    writeAll(this.#socket, [head, ...buffers]).catch(() => {})
  }

  /** Closes the connection when all requests are answered. */
  retire(): void {
    this.#isRetired = true
    if (this.#asked.size === 0) this.destroy(coded('ECONNRESET', 'the connection was replaced'))
  }

  destroy(error: Error): void {
    const asked = [...this.#asked.values()]
    this.#asked.clear()
    this.#received.release()
    this.#socket.destroy()
    for (const { callback } of asked) callback(error)
  }

  #take(chunk: Buffer): void {
    const received = this.#received
    received.add(chunk, 0, chunk.length)
    while (received.length >= 4 && !this.#socket.destroyed) {
      const size = received.bytes.readInt32BE()
      if (size < 4 || size > (this.isReady ? MOST_ANSWER_BYTES + this.#largest : MOST_FIRST_BYTES)) {
        this.destroy(new ProtocolProblem(notKafka(received.bytes)))
        return
      }
      const all = received.bytes.subarray(0, received.length)
      if (all.length < 4 + size) return
      received.release()
      received.add(all, 4 + size, all.length)
      this.#answer(all.subarray(4, 4 + size))
    }
  }

  #answer(frame: Buffer): void {
    const correlation = frame.readInt32BE()
    const asked = this.#asked.get(correlation)
    if (!asked) {
      this.destroy(new ProtocolProblem('it sent an answer without a request'))
      return
    }
    this.#asked.delete(correlation)
    this.answers++
    try {
      asked.callback(null, asked.parse(frame))
    } catch (error) {
      const isRefusal = 'response' in (error as object)
      const isUnderstood = isRefusal || errorCode(error) === NOT_AUTHENTICATED
      const problem = isUnderstood
        ? (error as Error)
        : new ProtocolProblem('its answer cannot be read', { cause: error })
      // The error may also come from a callback of the client.
      if (!isRefusal) this.destroy(problem)
      asked.callback(problem)
    }
    if (this.#isRetired && this.#asked.size === 0) this.retire()
  }
}

/** Explains why a response that begins with these bytes cannot be read. */
function notKafka(bytes: Buffer): string {
  const size = bytes.readInt32BE()
  if (size > 0 && size < MOST_SIZE) return `its answer of ${size} bytes is too long: a lower batch.max_events may help`
  if (bytes[0] === 0x15 && bytes[1] === 0x03) return 'it speaks TLS there: set "tls", as in tls: {}'
  return 'it does not speak the protocol of Kafka there: see "brokers"'
}

/** The name and the version by which brokers know this client. */
export const software = (): [string, string] => ['sluice', packageVersion()]
