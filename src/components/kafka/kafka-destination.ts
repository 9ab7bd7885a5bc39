import { randomInt } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { ComponentContext, Destination, EncodedRequest, HandoverState } from '../../core/component.js'
import { DeliveryError, errorText } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { RequestTexts } from '../../core/partition.js'
import { isConstant } from '../../core/template.js'
import { BoundedMap } from '../../lib/bounded-map.js'
import type { Clock } from '../../lib/time.js'
import { type KafkaClient, loadKafka } from '../../net/kafka/client.js'
import { KafkaCluster, type Topic } from '../../net/kafka/cluster.js'
import { CODES, meaningOf } from '../../net/kafka/refusals.js'
import type { KafkaOptions } from './options.js'
import { ProduceOutcome } from './outcome.js'
import { produceRequest } from './produce-request.js'
import {
  countOf,
  type EncodedRecords,
  haveSameRecords,
  NO_PRODUCER,
  type Producer,
  recordBatch,
  stamp,
} from './record-batch.js'
import { RecordEncoder } from './records.js'
import { topicsOf } from './topics.js'

/** Maximum number of topics whose requests wait for more events. */
const MOST_OPEN = 1000
/** Maximum number of topics whose sequence numbers are kept. */
const MOST_TOPICS = 10_000
/** If a quota pause is at most this long, requests are sent during the pause. The broker reads them after the pause. */
const LONGEST_PAUSE_MS = 5000
const MOST_PAUSE_MS = 3_600_000

/** The state of one partition. */
interface Lane {
  producer: Producer | undefined
  sequence: number
  /** A batch that the broker may have stored, but has not confirmed. */
  unconfirmed: Buffer | undefined
}

interface Share {
  readonly partition: number
  readonly indices: readonly number[]
  readonly batch: Buffer
  readonly lane: Lane
}

/** The state of a topic. */
interface Memory {
  readonly lanes: Map<number, Lane>
  /** Number of partitions over which keys are distributed. */
  partitions: number
  /** The partition for all events without a key, until a request is accepted. -1: no partition is chosen yet. */
  sticky: number
}

interface KafkaRequest extends EncodedRequest {
  readonly records: EncodedRecords
  /**
   * The indices of the events that earlier attempts have delivered. They are needed because an attempt may send several
   * rounds of batches. If it fails between two rounds, a retry has all events of the request again.
   */
  readonly accepted: (readonly number[])[]
  attempts: number
  release(): void
}

/** State with which brokers recognize a resent batch. A reload passes this state to the next destination object. */
interface Session {
  readonly topics: BoundedMap<string, Memory>
  /** The producer for partitions that do not have a producer yet. */
  producer: Promise<Producer> | undefined
  clusterId: string | null | undefined
}

/**
 * Sends one request of a topic at a time, to the leaders of the topic's partitions, and one of each partition that
 * failed. Invariant: a batch whose outcome is
 * unknown is sent again with the same sequence numbers and the same bytes, so that the broker recognizes the batch.
 * A new producer is needed before a different batch is sent to the same partition. Otherwise, the broker would mistake
 * the different batch for the earlier batch.
 */
export class KafkaDestination implements Destination {
  readonly mostPartitions = MOST_OPEN
  readonly #options: KafkaOptions
  readonly #cluster: KafkaCluster
  readonly #topics: RequestTexts
  readonly #encoder: RecordEncoder
  readonly #clock: Clock
  /** For each broker, the time at which its quota pause ends, on the monotonic clock. */
  readonly #pausedUntil = new Map<number, number>()
  readonly #newProducers: { value: number }
  readonly #duplicates: { value: number }
  readonly #session: Session

  constructor(options: KafkaOptions, context: ComponentContext, client: KafkaClient) {
    const { clock, metrics, inherited } = context
    this.#clock = clock
    const begin = (): Session => ({ topics: new BoundedMap(MOST_TOPICS), producer: undefined, clusterId: undefined })
    this.#session = (inherited as Session | undefined) ?? begin()
    this.#options = options
    this.#cluster = new KafkaCluster(options, context, client)
    this.#topics = topicsOf(options, context)
    this.#encoder = new RecordEncoder(options, context)
    const renewed = 'How often a new producer replaced a producer that a broker no longer accepted.'
    this.#newProducers = metrics.counter('sluice_kafka_new_producers_total', renewed)
    const twice =
      'Events that were sent again although they may be stored. Brokers cannot recognize them as duplicates.'
    this.#duplicates = metrics.counter('sluice_kafka_possible_duplicates_total', twice)
  }

  async start(): Promise<void> {
    await this.#cluster.open()
  }

  changed(): Promise<boolean> {
    return this.#cluster.changed()
  }

  handOver(): HandoverState {
    return { value: this.#session }
  }

  async stop(): Promise<void> {
    await this.#cluster.close()
  }

  isOnePartition(): boolean {
    return this.#topics.areConstant
  }

  partitionOf(batch: EventBatch, i: number): string {
    return this.#topics.partitionOf(batch, i)
  }

  /** The partition of an event with a key. An event without a key can go to any partition. */
  targetOf(batch: EventBatch, i: number): string | undefined {
    const partitions = this.#session.topics.get(this.partitionOf(batch, i))?.partitions
    const hash = this.#encoder.hashOf(batch, i)
    return partitions && hash !== undefined ? String((hash & 0x7fffffff) % partitions) : undefined
  }

  encode(request: readonly EventBatch[]): KafkaRequest {
    const records = this.#encoder.encode(request)
    const size = records.bytes.length
    return { size, records, accepted: [], attempts: 0, release: () => this.#encoder.release(records) }
  }

  async write(
    request: readonly EventBatch[],
    signal: AbortSignal,
    partition?: string,
    encoded = this.encode(request),
  ): Promise<void> {
    // Each broker adds a listener, so a signal may have many.
    setMaxListeners(0, signal)
    const name = partition ?? this.#topics.of(undefined)[0]!
    const { records, accepted } = encoded
    // If fields of an event determine the topic, the event is the cause of a missing topic.
    const failure = isConstant(this.#options.topic) ? 'hold' : 'reject'
    const topic = await this.#cluster.topic(name, signal, failure)
    this.#noticeCluster()
    const memory = this.#memoryOf(name)
    encoded.attempts++
    let outcome: ProduceOutcome
    do {
      outcome = new ProduceOutcome(records.times.length)
      const shares = await this.#shares(records, topic, memory, accepted, outcome, signal)
      const byLeader = new Map<number, Share[]>()
      for (const share of shares) {
        const leader = topic.leaders[share.partition]!
        byLeader.set(leader, [...(byLeader.get(leader) ?? []), share])
      }
      await Promise.all(
        Array.from(byLeader, ([leader, own]) =>
          this.#produce(name, leader, own, accepted, outcome, failure, signal).catch(error => {
            // If the signal aborts, the outcome still says what the other brokers have confirmed.
            if (!signal.aborted) this.#cluster.forget(name)
            for (const { indices } of own) outcome.again(indices, signal.aborted ? aborted(signal.reason) : error)
          }),
        ),
      )
      const { error } = outcome
      if (error) throw error
    } while (outcome.isPart)
    memory.sticky = -1
    // In a retry, an earlier attempt might still read the records.
    if (encoded.attempts === 1) encoded.release()
  }

  /**
   * If the cluster has changed, starts a new session. The new cluster may have given the same producer id to another
   * client.
   */
  #noticeCluster(): void {
    const { id } = this.#cluster
    const session = this.#session
    if (id === session.clusterId) return
    session.clusterId = id
    session.topics.clear()
    session.producer = undefined
    this.#pausedUntil.clear()
  }

  #memoryOf(topic: string): Memory {
    const session = this.#session
    const memory = session.topics.get(topic) ?? { lanes: new Map(), partitions: 0, sticky: -1 }
    // If a topic was forgotten, its sequence numbers restart at 0. This requires a new producer.
    if (session.topics.size >= MOST_TOPICS) session.producer = undefined
    session.topics.delete(topic)
    session.topics.set(topic, memory)
    return memory
  }

  /**
   * Divides a request into a batch for each partition. The events of a batch that is too large go to `outcome` instead.
   */
  async #shares(
    records: EncodedRecords,
    { leaders }: Topic,
    memory: Memory,
    accepted: readonly (readonly number[])[],
    outcome: ProduceOutcome,
    signal: AbortSignal,
  ): Promise<Share[]> {
    // The broker may have stored unconfirmed events already. So these events are sent again in the same batch, even if
    // the topic has more partitions now.
    const isRepeated = Array.from(memory.lanes.values()).some(({ unconfirmed }) => unconfirmed)
    if (!isRepeated || memory.partitions > leaders.length) memory.partitions = leaders.length
    const { partitions } = memory
    const byPartition = new Map<number, number[]>()
    const isAccepted = accepted.length > 0 ? new Set(accepted.flat()) : undefined
    for (let i = 0; i < records.times.length; i++) {
      if (isAccepted?.has(i)) continue
      const hash = records.hashes[i]
      const partition = hash === undefined ? this.#stickyOf(memory, leaders) : (hash & 0x7fffffff) % partitions
      const own = byPartition.get(partition)
      if (own) own.push(i)
      else byPartition.set(partition, [i])
    }
    const { compression, max_message_bytes: maxBytes } = this.#options
    const shares: Share[] = []
    for (const [partition, all] of byPartition) {
      const lane = memory.lanes.get(partition) ?? { producer: undefined, sequence: 0, unconfirmed: undefined }
      memory.lanes.set(partition, lane)
      const encoded = (indices: readonly number[]) => recordBatch(records, indices, compression, this.#cluster.client)
      let [indices, batch] = [all, await encoded(all)]
      const repeated = lane.unconfirmed ? countOf(lane.unconfirmed) : all.length
      if (repeated < all.length) {
        // After a reload, the request may have more events after the unconfirmed events.
        const [first, rest] = [all.slice(0, repeated), all.slice(repeated)]
        const before = await encoded(first)
        if (haveSameRecords(lane.unconfirmed!, before)) {
          indices = first
          batch = before
          outcome.again(rest)
        }
      }
      signal.throwIfAborted()
      if (batch.length > maxBytes) {
        const text = `a batch of ${batch.length} bytes is larger than max_message_bytes (${maxBytes})`
        outcome.tooLarge(indices, new DeliveryError(text, { failure: 'too_large', reason: 'too_long' }))
        continue
      }
      await this.#prepare(lane, batch, signal)
      shares.push({ partition, indices, batch, lane })
    }
    return shares
  }

  /** Ensures that the broker recognizes a repeated batch, and does not mistake another batch for a repeated one. */
  async #prepare(lane: Lane, batch: Buffer, signal: AbortSignal): Promise<void> {
    const { unconfirmed } = lane
    const isKnown = unconfirmed !== undefined && haveSameRecords(unconfirmed, batch)
    if (!this.#options.idempotence) {
      if (unconfirmed) this.#duplicates.value += countOf(unconfirmed)
      lane.producer = NO_PRODUCER
      lane.sequence = -1
    } else {
      if (unconfirmed && !isKnown) this.#renew(lane)
      if (unconfirmed && !lane.producer) this.#duplicates.value += countOf(unconfirmed)
      if (!lane.producer) {
        lane.unconfirmed = undefined
        const session = this.#session
        const asked = (session.producer ??= this.#cluster.newProducer(signal))
        lane.producer = await asked.catch(error => {
          if (session.producer === asked) session.producer = undefined
          throw error
        })
        lane.sequence = 0
      }
    }
    stamp(batch, lane.producer, lane.sequence, this.#cluster.client)
  }

  #renew(lane: Lane): void {
    lane.producer = undefined
    this.#session.producer = undefined
    this.#newProducers.value++
  }

  async #produce(
    topic: string,
    leader: number,
    shares: readonly Share[],
    accepted: (readonly number[])[],
    outcome: ProduceOutcome,
    failure: 'hold' | 'reject',
    signal: AbortSignal,
  ): Promise<void> {
    if (leader < 0) {
      const text = `topic ${topic}: partition ${shares[0]!.partition} has no leader now; are all brokers up?`
      throw new DeliveryError(text, { failure: 'retry', reason: 'leader' })
    }
    const pauseMs = (this.#pausedUntil.get(leader) ?? 0) - this.#clock.now()
    if (pauseMs > LONGEST_PAUSE_MS) {
      const { reason, advice } = meaningOf(CODES.QUOTA)
      const text = `topic ${topic}: ${advice}, and broker ${leader} asks for a pause`
      throw new DeliveryError(text, { failure: 'retry', reason, retryAfterMs: pauseMs })
    }
    const connection = await this.#cluster.broker(leader, signal)
    const wasUnconfirmed = new Set(shares.filter(({ lane }) => lane.unconfirmed !== undefined))
    for (const { lane, batch } of shares) lane.unconfirmed = batch
    const answered = await connection
      .produce(produceRequest(topic, shares, this.#options.acks), signal)
      .catch(error => {
        const { response } = error as { response?: Awaited<ReturnType<typeof connection.produce>> }
        if (response) return response
        signal.throwIfAborted()
        throw this.#cluster.explainBroker(error, leader)
      })
    this.#pausedUntil.set(leader, this.#clock.now() + Math.min(answered.throttleTimeMs, MOST_PAUSE_MS))
    const results = new Map(
      answered.responses.flatMap(({ partitionResponses }) => partitionResponses).map(result => [result.index, result]),
    )
    for (const share of shares) {
      const { partition, indices, lane, batch } = share
      const { errorCode = -1, errorMessage = '', recordErrors = [] } = results.get(partition) ?? {}
      const isRepeated = wasUnconfirmed.has(share)
      if (errorCode === 0 || (errorCode === CODES.DUPLICATE && isRepeated)) {
        lane.unconfirmed = undefined
        lane.sequence = (lane.sequence + countOf(batch)) & 0x7fffffff
        accepted.push(indices)
        continue
      }
      const { failure: kind, isOfTopic, isStale, isUnknown } = meaningOf(errorCode)
      if (!isUnknown && !isRepeated) lane.unconfirmed = undefined
      if (kind === 'session') this.#renew(lane)
      if (isStale) this.#cluster.forget(topic)
      const who = `topic ${topic}, partition ${partition}`
      // Retried, because a leader may not know a new topic yet. Only metadata decides whether the topic is unknown.
      const meant = errorCode === CODES.UNKNOWN_TOPIC ? 'retry' : failure
      const error = this.#cluster.refusal(errorCode, who, errorMessage, isOfTopic && meant)
      if (kind === 'too_large') outcome.tooLarge(indices, error)
      else if (error.failure !== 'reject') outcome.again(indices, error)
      else {
        const said = new Map(recordErrors.map(one => [one.batchIndex, one.batchIndexErrorMessage]))
        if (!indices.some((_, n) => said.has(n))) {
          outcome.refused(indices, error)
          continue
        }
        for (const [n, i] of indices.entries()) {
          const words = said.get(n)
          if (!said.has(n)) outcome.again([i])
          else outcome.refused([i], words ? this.#cluster.refusal(errorCode, who, words, 'reject') : error)
        }
      }
    }
  }

  /** Returns the partition for those events of a request that have no key. Prefers a partition that has a leader. */
  #stickyOf(memory: Memory, leaders: readonly number[]): number {
    // Without idempotence, a wait for the partition of an unconfirmed batch would not prevent duplicates.
    const isAwaited = (partition: number) => this.#options.idempotence && memory.lanes.get(partition)?.unconfirmed
    const isUsable = (partition: number) => leaders[partition]! >= 0 || isAwaited(partition)
    if (memory.sticky >= 0 && memory.sticky < leaders.length && isUsable(memory.sticky)) return memory.sticky
    const usable = Array.from(leaders.keys()).filter(isUsable)
    const all = usable.length > 0 ? usable : Array.from(leaders.keys())
    memory.sticky = all.find(partition => memory.lanes.get(partition)?.unconfirmed) ?? all[randomInt(all.length)]!
    return memory.sticky
  }
}

function aborted(reason: unknown): DeliveryError {
  if (reason instanceof DeliveryError) return reason
  return new DeliveryError(errorText(reason), { failure: 'retry', reason: 'aborted', cause: reason })
}

export async function checkTopic(
  options: KafkaOptions,
  context: ComponentContext,
  signal: AbortSignal,
): Promise<string> {
  const cluster = new KafkaCluster(options, context, await loadKafka())
  try {
    await cluster.open()
    const topics = topicsOf(options, context)
    let name: string
    try {
      name = topics.areConstant ? topics.of(undefined)[0]! : topics.partitionOfDefaults()
    } catch (error) {
      if (!(error instanceof DeliveryError)) throw error
      await cluster.newProducer(signal)
      return `connects, but did not check whether topics can be written to: ${error.message}`
    }
    const { leaders } = await cluster.topic(name, signal, 'hold', false)
    await Promise.all(Array.from(new Set(leaders.filter(id => id >= 0)), id => cluster.broker(id, signal)))
    if ((await cluster.mayWrite(name, signal)) === false) throw cluster.refusal(CODES.TOPIC_DENIED, `topic ${name}`)
    if (options.idempotence) await cluster.newProducer(signal)
    const many = leaders.length === 1 ? '1 partition' : `${leaders.length} partitions`
    return `the topic ${name} can be written to: ${many}`
  } finally {
    await cluster.close()
  }
}
