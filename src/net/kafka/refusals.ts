import { DeliveryError, type Failure } from '../../core/errors.js'

/** The errors of brokers by code: what they mean for events, and what to do. */

interface Meaning {
  /** `session`: the broker no longer accepts the producer; a new producer can send the events. */
  readonly failure: Failure | 'session'
  /** The value of the metric label. */
  readonly reason: string
  readonly advice: string
  /** Whether the error concerns only the topic. */
  readonly isOfTopic?: true
  /** Whether another broker may be the leader of the partition now. */
  readonly isStale?: true
  /** Whether the events may be stored although the request failed. */
  readonly isUnknown?: true
}

/** A leader also reports this error if it stored the events and was replaced before the replicas confirmed them. */
const MOVED = {
  failure: 'retry',
  reason: 'leader',
  advice: 'the leader of the partition is another broker',
  isStale: true,
  isUnknown: true,
} as const
const BUSY = { failure: 'retry', reason: 'broker', advice: 'the broker cannot answer now' } as const
const SESSION = { failure: 'session', reason: 'producer', advice: 'events are sent again by a new producer' } as const

export const CODES = {
  UNKNOWN_TOPIC: 3,
  LEADER_NOT_AVAILABLE: 5,
  TOO_LARGE: 10,
  INVALID_TOPIC: 17,
  TOPIC_DENIED: 29,
  CLUSTER_DENIED: 31,
  NO_MECHANISM: 33,
  VERSION: 35,
  DUPLICATE: 46,
  REFUSED: 58,
  QUOTA: 89,
} as const

const MEANINGS: Readonly<Record<number, Meaning>> = {
  [-1]: { ...BUSY, isUnknown: true },
  2: { failure: 'retry', reason: 'corrupt', advice: 'the request was damaged on its way', isUnknown: true },
  3: {
    failure: 'hold',
    reason: 'unknown_topic',
    advice: 'create the topic, allow brokers to create it, or correct "topic"',
    isOfTopic: true,
    isStale: true,
  },
  5: MOVED,
  6: MOVED,
  7: {
    failure: 'retry',
    reason: 'replicas',
    advice: 'the replicas did not confirm in time: are all brokers up?',
    isUnknown: true,
  },
  8: { ...BUSY, isStale: true },
  9: MOVED,
  10: {
    failure: 'too_large',
    reason: 'too_long',
    advice: 'raise max.message.bytes of the topic and "max_message_bytes", or shorten events before they are sent',
  },
  13: { ...BUSY, isUnknown: true },
  14: BUSY,
  15: BUSY,
  16: BUSY,
  17: {
    failure: 'hold',
    reason: 'topic_name',
    advice: 'the name of a topic can only have letters, digits, ".", "_" and "-": correct "topic"',
    isOfTopic: true,
  },
  18: {
    failure: 'too_large',
    reason: 'too_long',
    advice: 'raise segment.bytes of the topic, or lower batch.max_bytes',
  },
  19: {
    failure: 'retry',
    reason: 'replicas',
    advice: 'fewer replicas are in sync than min.insync.replicas of the topic: are all brokers up?',
  },
  20: {
    failure: 'retry',
    reason: 'replicas',
    advice: 'fewer replicas are in sync than min.insync.replicas of the topic: are all brokers up?',
    isUnknown: true,
  },
  29: {
    failure: 'hold',
    reason: 'topic_denied',
    advice: 'the user needs the rights Write and Describe on the topic, and Create if brokers are to create it',
    isOfTopic: true,
  },
  31: {
    failure: 'hold',
    reason: 'cluster_denied',
    advice: 'the user needs the right IdempotentWrite on the cluster; or set idempotence: false',
  },
  32: {
    failure: 'reject',
    reason: 'timestamp',
    advice:
      'the time differs from the clock of the broker by more than the topic allows (message.timestamp.before.max.ms, .after.max.ms): correct "timestamp"',
  },
  33: { failure: 'hold', reason: 'sasl_mechanism', advice: 'correct auth.type' },
  35: { failure: 'hold', reason: 'version', advice: 'Kafka 2.8 or newer is needed' },
  43: { failure: 'hold', reason: 'version', advice: 'the topic has a message format from before Kafka 0.11' },
  44: { failure: 'hold', reason: 'policy', advice: 'a policy of the cluster does not allow it' },
  45: SESSION,
  46: SESSION,
  47: SESSION,
  56: {
    failure: 'retry',
    reason: 'disk',
    advice: 'the broker cannot write to its disk: see its log',
    isStale: true,
    isUnknown: true,
  },
  58: { failure: 'hold', reason: 'auth', advice: 'the user or the password was refused' },
  59: SESSION,
  65: { failure: 'hold', reason: 'auth', advice: 'the token is not accepted' },
  74: MOVED,
  75: MOVED,
  76: {
    failure: 'hold',
    reason: 'compression',
    advice: 'the broker does not support this compression: set another "compression"',
  },
  87: {
    failure: 'reject',
    reason: 'invalid_record',
    advice: 'a compacted topic requires a key: set "key_field"; otherwise see the log of the broker',
  },
  89: { failure: 'retry', reason: 'quota', advice: 'a quota of the cluster is used up' },
  90: SESSION,
}

/** The meaning of an error code. After an unknown code, the events may or may not be stored. */
export const meaningOf = (code: number): Meaning =>
  MEANINGS[code] ?? { failure: 'retry', reason: 'broker', advice: 'see the log of the broker', isUnknown: true }

interface Given {
  readonly failure?: Failure | undefined
  readonly advice?: string | undefined
}

/**
 * Returns the error for an error code. `who`: the topic or partition that it concerns. `said`: the broker's message.
 * `given`: replaces the failure or the advice of the code.
 */
export function refusal(code: number, name: string, who: string, said = '', given: Given = {}): DeliveryError {
  const meaning = meaningOf(code)
  const { reason } = meaning
  const { failure, advice = meaning.advice } = given
  const own = meaning.failure === 'session' ? 'retry' : meaning.failure
  const words = [name, said].filter(Boolean).join(': ')
  return new DeliveryError(`${who}: ${words}; ${advice}`, { failure: failure ?? own, reason, status: code })
}
