import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { crc32c, Reader, readRecordsBatch, Writer } from '@platformatic/kafka'
import type { Test } from 'tap'
import { HOST } from './address.js'

/** A message as a consumer sees it. */
export interface Message {
  readonly key: string | null
  readonly value: string
  readonly headers: Readonly<Record<string, string>>
  readonly timestamp: number
}

/** The messages for a partition in a request. */
export interface Part {
  readonly topic: string
  readonly partition: number
  readonly messages: readonly Message[]
  readonly producer: bigint
  readonly sequence: number
  readonly compression: number
}

/** What becomes of a request. */
export interface Answer {
  /** Of a partition; 0 by default. Messages are stored with 0, and with codes in `stored`. */
  code?(part: Part): number
  /** Errors of messages, by their position. */
  errors?(part: Part): [index: number, text: string | null][]
  readonly stored?: readonly number[]
  /** Nothing is answered: the connection is cut, or stays open. */
  readonly instead?: 'cut' | 'hang' | 'store and cut'
}

/** Which bytes SASL wants, or an error. */
export type Sasl = (mechanism: string, bytes: Buffer) => { readonly code: number; readonly bytes?: Buffer }

/** Stands in for a broker of a cluster of one: it answers by script, and keeps to the rules of sequence numbers. */
export class KafkaBroker {
  readonly requests: Part[][] = []
  /** Answers to come, one a request; then `otherwise`. */
  readonly script: Answer[] = []
  otherwise: (parts: readonly Part[]) => Answer | Promise<Answer> = () => ({})
  /** The number of partitions of a topic, or an error. */
  topic: (name: string) => { readonly partitions: number } | { readonly code: number } = () => ({ partitions: 3 })
  /** The other broker of the cluster, which leads the partitions with odd numbers. */
  peer: KafkaBroker | undefined
  /** Partitions without a leader. */
  readonly leaderless = new Set<number>()
  sasl: Sasl | undefined
  mechanisms = ['PLAIN', 'OAUTHBEARER']
  sessionMs = 0n
  throttleMs = 0
  clusterId = 'cluster'
  /** Where it says that it is, if not where it listens. */
  advertised: { readonly address: string; readonly port: number } | undefined
  producers = 0n
  producerCode = 0
  connections = 0
  /** By topic and partition, as in `logs-0`. */
  readonly log = new Map<string, Message[]>()
  /** By topic, partition and producer: the batches, as first and last number. */
  readonly #sequences = new Map<string, [first: number, last: number][]>()
  readonly #sockets = new Set<Socket>()
  readonly #server: Server

  constructor() {
    this.#server = createServer(socket => {
      this.connections++
      this.#sockets.add(socket)
      socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket))
      void this.#serve(socket).catch(() => socket.destroy())
    })
  }

  get address(): string {
    return `${HOST}:${(this.#server.address() as AddressInfo).port}`
  }

  async listen(): Promise<this> {
    this.#server.listen(0, HOST)
    await once(this.#server, 'listening')
    return this
  }

  close(): void {
    this.cut()
    this.#server.close()
  }

  /** Ends all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** All messages of a topic, by partition. */
  stored(topic: string): Message[][] {
    return Array.from({ length: 16 }, (_, n) => this.log.get(`${topic}-${n}`) ?? [])
  }

  /** Forgets producers, as a broker whose data is gone. */
  forget(): void {
    this.#sequences.clear()
  }

  async #serve(socket: Socket): Promise<void> {
    let rest = Buffer.alloc(0)
    const state = { mechanism: '', isIn: false }
    for await (const chunk of socket) {
      rest = Buffer.concat([rest, chunk])
      while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE()) {
        const end = 4 + rest.readInt32BE()
        const answer = await this.#answer(rest.subarray(4, end), state)
        rest = rest.subarray(end)
        if (answer === 'cut') return void socket.destroy()
        if (answer === 'hang') continue
        const head = Buffer.alloc(4)
        head.writeInt32BE(answer.length)
        socket.write(Buffer.concat([head, answer]))
      }
    }
  }

  async #answer(frame: Buffer, state: { mechanism: string; isIn: boolean }): Promise<Buffer | 'cut' | 'hang'> {
    const [key, correlation, idLength] = [frame.readInt16BE(), frame.readInt32BE(4), frame.readInt16BE(8)]
    const isTagged = key !== 17
    const reader = Reader.from(frame.subarray(10 + idLength + (isTagged ? 1 : 0)))
    const to = Writer.create().appendInt32(correlation)
    if (key !== 17 && key !== 18) to.appendTaggedFields()
    if (this.sasl && !state.isIn && key !== 18 && key !== 17 && key !== 36) return 'cut'
    if (key === 18) this.#versions(to)
    else if (key === 3) this.#metadata(reader, to)
    else if (key === 22) this.#producer(to)
    else if (key === 17) {
      state.mechanism = reader.readString(false)
      to.appendInt16(this.mechanisms.includes(state.mechanism) ? 0 : 33)
      to.appendArray(this.mechanisms, (w, name) => void w.appendString(name, false), false, false)
    } else if (key === 36) {
      const given = reader.readBytes()
      const { code, bytes = Buffer.alloc(0) } = this.sasl!(state.mechanism, given)
      state.isIn = code === 0
      to.appendInt16(code).appendString(code === 0 ? null : `refused by the stand-in: ${given}`)
      to.appendUnsignedVarInt(bytes.length + 1)
      if (bytes.length > 0) to.append(bytes)
      to.appendInt64(this.sessionMs).appendTaggedFields()
    } else if (key === 0) {
      const instead = await this.#produce(reader, to)
      if (instead) return instead
    } else return 'cut'
    return to.buffer
  }

  #versions(to: Writer): void {
    const known: [key: number, most: number][] = [
      [0, 9],
      [3, 9],
      [17, 1],
      [18, 3],
      [22, 3],
      [36, 2],
    ]
    to.appendInt16(0)
      .appendArray(known, (w, [key, most]) => void w.appendInt16(key).appendInt16(0).appendInt16(most))
      .appendInt32(0)
      .appendTaggedFields()
  }

  #metadata(reader: Reader, to: Writer): void {
    const names = reader.readArray(r => r.readString())
    const brokers = [this, ...(this.peer ? [this.peer] : [])].map(
      broker => broker.advertised ?? (broker.#server.address() as AddressInfo),
    )
    const ints = (w: Writer) => void w.appendArray([0], (w, n) => void w.appendInt32(n), true, false)
    to.appendInt32(0)
      .appendArray(
        brokers,
        (w, { address, port }, id) => void w.appendInt32(id).appendString(address).appendInt32(port).appendString(null),
      )
      .appendString(this.clusterId)
      .appendInt32(0)
      .appendArray(names, (w, name) => {
        const found = this.topic(name)
        w.appendInt16('code' in found ? found.code : 0)
          .appendString(name)
          .appendBoolean(false)
        const count = 'code' in found ? 0 : found.partitions
        w.appendArray([...Array(count).keys()], (w, n) => {
          const none = this.leaderless.has(n)
          w.appendInt16(none ? 5 : 0)
            .appendInt32(n)
            .appendInt32(none ? -1 : n % brokers.length)
            .appendInt32(0)
          ints(w)
          ints(w)
          ints(w)
        })
        w.appendInt32(-(2 ** 31))
      })
      .appendInt32(0)
      .appendTaggedFields()
  }

  #producer(to: Writer): void {
    const code = this.producerCode
    to.appendInt32(0)
      .appendInt16(code)
      .appendInt64(code === 0 ? ++this.producers : -1n)
      .appendInt16(0)
      .appendTaggedFields()
  }

  async #produce(reader: Reader, to: Writer): Promise<'cut' | 'hang' | undefined> {
    reader.readNullableString()
    const acks = reader.readInt16()
    reader.readInt32()
    const parts: Part[] = []
    reader.readArray(r => {
      const topic = r.readString()
      r.readArray(r => void parts.push(partOf(topic, r.readInt32(), r.readBytes())))
    })
    if (acks === 0) throw new Error('nobody would know')
    this.requests.push(parts)
    const answer = this.script.shift() ?? (await this.otherwise(parts))
    const { instead, code = () => 0, errors = () => [], stored = [] } = answer
    if (instead === 'cut' || instead === 'hang') return instead
    const results = parts.map(part => {
      const given = code(part)
      const sequence = given === 0 || stored.includes(given) ? this.#store(part) : 0
      return { part, code: given || sequence }
    })
    if (instead === 'store and cut') return 'cut'
    to.appendArray([parts[0]!.topic], (w, topic) => {
      w.appendString(topic).appendArray(results, (w, { part, code }) => {
        w.appendInt32(part.partition).appendInt16(code).appendInt64(0n).appendInt64(-1n).appendInt64(0n)
        w.appendArray(errors(part), (w, [index, text]) => void w.appendInt32(index).appendString(text))
        w.appendString(code === 0 ? null : `words about ${code}`)
      })
    })
    to.appendInt32(this.throttleMs).appendTaggedFields()
    return undefined
  }

  /** The error, if the numbers are not those that come next. */
  #store({ topic, partition, messages, producer, sequence }: Part): number {
    const place = `${topic}-${partition}`
    const last = sequence + messages.length - 1
    if (producer >= 0n) {
      const known = this.#sequences.get(`${place} ${producer}`) ?? []
      if (known.some(([a, b]) => a === sequence && b === last)) return 0
      if (sequence !== (known.at(-1)?.[1] ?? -1) + 1) return known.length === 0 ? 59 : 45
      this.#sequences.set(`${place} ${producer}`, [...known.slice(-4), [sequence, last]])
    }
    this.log.set(place, [...(this.log.get(place) ?? []), ...messages])
    return 0
  }
}

function partOf(topic: string, partition: number, batch: Buffer): Part {
  if (crc32c(batch.subarray(21)) !== batch.readUInt32BE(17)) throw new Error('the checksum is wrong')
  if (batch.readInt32BE(8) !== batch.length - 12) throw new Error('the length is wrong')
  const { records, firstTimestamp, maxTimestamp, producerId, firstSequence, attributes, lastOffsetDelta } =
    readRecordsBatch(Reader.from(batch))
  const times = records.map(({ timestampDelta }) => Number(firstTimestamp + timestampDelta))
  if (Math.max(...times) !== Number(maxTimestamp)) throw new Error('the latest time is wrong')
  if (records.some(({ offsetDelta }, n) => offsetDelta !== n) || lastOffsetDelta !== records.length - 1)
    throw new Error('the offsets are wrong')
  const messages = records.map(({ key, value, headers }, n) => ({
    key: key?.toString() ?? null,
    value: value!.toString(),
    headers: Object.fromEntries(headers.map(([name, value]) => [String(name), String(value)])),
    timestamp: times[n]!,
  }))
  return { topic, partition, messages, producer: producerId, sequence: firstSequence, compression: attributes & 7 }
}

export async function kafkaBroker(t: Test): Promise<KafkaBroker> {
  const broker = await new KafkaBroker().listen()
  t.teardown(() => broker.close())
  return broker
}
