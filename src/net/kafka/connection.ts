import type { Socket } from 'node:net'
import { packageVersion } from '../../lib/version.js'
import { writeAll } from '../connection.js'
import { coded } from '../dial.js'
import type { Api, Callback, KafkaClient, Parse, Payload, Sender } from './client.js'

/** The largest answer: brokers and partitions of one topic, or the result of a request. */
const MOST_ANSWER_BYTES = 16 * 1024 * 1024
const CLIENT_ID = Buffer.from('sluice')
/** In the version of Kafka 2.8: its answers name the records that are refused. */
export const PRODUCE = { key: 0, version: 9 } as const

/** The other side does not speak the protocol of Kafka, or not this version. */
export class ProtocolProblem extends Error {}

interface Asked {
  readonly parse: (frame: Buffer) => unknown
  readonly callback: Callback<unknown>
}

/** A connection to a broker. Whatever goes wrong closes it, and it never reconnects: its user makes another one. */
export class KafkaConnection implements Sender {
  readonly #client: KafkaClient
  readonly #socket: Socket
  readonly #asked = new Map<number, Asked>()
  #correlation = 0
  /** What has arrived of the next answer, and how long that is, as far as it is known. */
  #chunks: Buffer[] = []
  #received = 0
  #wanted = 4
  #isRetired = false
  /** Whether anything has ever been answered. */
  hasAnswered = false
  /** When another one has to be made, by the monotonic clock: the broker lets go of it soon after. */
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

  /** Makes a request. If the signal aborts, the connection is closed: nobody knows what became of the request. */
  ask<A extends readonly unknown[], T>(api: Api<A, T>, args: A, signal: AbortSignal): Promise<T> {
    return this.run(callback => api(this, ...args, callback), signal)
  }

  /** The same for work of several requests. Its callback is called when the connection ends, too. */
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
    head.writeInt32BE(buffers.reduce((sum, { length }) => sum + length, head.length - 4))
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

  /** Closes it when all that was asked is answered. */
  retire(): void {
    this.#isRetired = true
    if (this.#asked.size === 0) this.destroy(coded('ECONNRESET', 'the connection was replaced'))
  }

  destroy(error: Error): void {
    const asked = [...this.#asked.values()]
    this.#asked.clear()
    this.#chunks = []
    this.#socket.destroy()
    for (const { callback } of asked) callback(error)
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#received += chunk.length
    while (this.#received >= this.#wanted && !this.#socket.destroyed) {
      const all = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)
      const size = all.readInt32BE()
      if (size < 4 || size > MOST_ANSWER_BYTES) {
        this.destroy(new ProtocolProblem(notKafka(all)))
        return
      }
      this.#chunks = [all]
      this.#wanted = 4 + size
      if (all.length < this.#wanted) return
      const rest = all.subarray(this.#wanted)
      this.#chunks = [rest]
      this.#received = rest.length
      const frame = all.subarray(4, this.#wanted)
      this.#wanted = 4
      this.#answer(frame)
    }
  }

  #answer(frame: Buffer): void {
    const correlation = frame.readInt32BE()
    const asked = this.#asked.get(correlation)
    if (!asked) {
      this.destroy(new ProtocolProblem('it answers what was not asked'))
      return
    }
    this.#asked.delete(correlation)
    this.hasAnswered = true
    try {
      asked.callback(null, asked.parse(frame))
    } catch (error) {
      // A callback of the client may throw, too.
      if (!('response' in (error as object))) this.destroy(error as Error)
      asked.callback(error as Error)
    }
    if (this.#isRetired && this.#asked.size === 0) this.retire()
  }
}

/** The first bytes of another protocol are a size that no answer has. */
function notKafka(bytes: Buffer): string {
  if (bytes[0] === 0x15 && bytes[1] === 0x03) return 'it speaks TLS there: set "tls", as in tls: {}'
  return 'it does not speak the protocol of Kafka there: see "brokers"'
}

/** The name and the version by which brokers know this client. */
export const software = (): [string, string] => ['sluice', packageVersion()]
