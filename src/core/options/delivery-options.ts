import { z } from 'zod'
import { byteSize, duration } from './options.js'

/** What differs between the types of destinations: a file wants order and no waiting, a service wants full requests. */
export interface DeliveryDefaults {
  readonly max_events: number
  readonly max_bytes: string
  /** What `max_bytes` is measured in. */
  readonly bytes: string
  readonly max_wait: string
  readonly max_in_flight: number
}

const REMOTE: DeliveryDefaults = {
  max_events: 1000,
  max_bytes: '1MB',
  bytes: 'Bytes of one request at most, as sent, before compression.',
  max_wait: '1 Seconds',
  max_in_flight: 4,
}

/** Defaults for destinations on the machine itself: in order, hardly waiting. */
export const LOCAL: DeliveryDefaults = {
  max_events: 50_000,
  max_bytes: '1MB',
  bytes: 'Bytes of events written at a time at most, as read.',
  max_wait: '10ms',
  max_in_flight: 1,
}

/** The side output of a destination: what it refuses for good. */
export const REJECTED = 'rejected'

/** So that a buffer can be cut in files. */
const SMALLEST_BUFFER = 1_000_000

const BUFFER_TYPE =
  'memory: their sources wait with them, since events are acknowledged when they are delivered. disk: in files under data_dir; events are acknowledged as soon as they are safe there, survive the end of the process, and while the destination is away the others go on.'

const DAY_MS = 86_400_000

/** A time that something waits for: at most a day, so that it fits a timer. */
function wait(fallback: string) {
  return duration()
    .refine(ms => ms <= DAY_MS, { error: 'must be at most 24 Hours', params: { constant: true } })
    .prefault(fallback)
}

/** The options that every destination has beside its own; flow/delivery/delivery.ts acts on them. */
export function deliveryOptionsWith(defaults: DeliveryDefaults) {
  return z.strictObject({
    batch: z
      .strictObject({
        max_events: z
          .int()
          .min(1)
          .max(1_000_000)
          .prefault(defaults.max_events)
          .describe('Events in one request at most.'),
        max_bytes: byteSize(1, 1024 ** 3)
          .prefault(defaults.max_bytes)
          .describe(`${defaults.bytes} A single larger event goes alone.`),
        max_wait: wait(defaults.max_wait).describe('How long an event waits at most for others to share its request.'),
      })
      .prefault({})
      .describe('How events are put together into requests.'),
    retry: z
      .strictObject({
        initial: wait('1 Seconds').describe(
          'The longest wait before the first retry; it doubles from there. The wait itself is random below it.',
        ),
        max: wait('30 Seconds').describe(
          'The longest wait between two attempts. A longer Retry-After of the receiver is kept, up to an hour.',
        ),
        max_attempts: z
          .int()
          .min(1)
          .optional()
          .describe('Attempts after which a request is given up and goes where `on_reject` says. Without it: never.'),
        max_elapsed: duration()
          .optional()
          .describe(
            'Time of retrying after which a request is given up and goes where `on_reject` says. Without it: never.',
          ),
      })
      .prefault({})
      .describe('How failed requests are tried again. Nothing is given up by default.'),
    timeout: wait('30 Seconds').describe('Time for one attempt, from connecting to the whole answer.'),
    max_in_flight: z
      .int()
      .min(1)
      .max(1000)
      .prefault(defaults.max_in_flight)
      .describe('Requests on their way at the same time. 1 keeps the order.'),
    hold_after_refusals: z
      .int()
      .min(0)
      .max(1_000_000)
      .prefault(5)
      .describe(
        'After this many requests that were refused as a whole, in a row and for the same reason, nothing is sent or given up until one is accepted; one is tried again at least once a minute. For 404, 405, 410 and 421 always, for other reasons while no request was accepted since the start. 0: never, all refused events go where `on_reject` says.',
      ),
    on_reject: z
      .enum(['dead_letter', 'discard'])
      .prefault('dead_letter')
      .describe(
        'What happens to events that the destination finally refuses: kept, or dropped. Both are counted with the reason. They are kept in a file under data_dir, from where `sluice resend` sends them again; or they go to the components that have `ID.rejected` of this destination among their inputs.',
      ),
    buffer: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.literal('memory').describe(BUFFER_TYPE) }),
        z.strictObject({
          type: z.literal('disk').describe(BUFFER_TYPE),
          max_bytes: byteSize(SMALLEST_BUFFER).prefault('1GB').describe('Bytes of its files at most.'),
          when_full: z
            .enum(['block', 'drop_newest'])
            .prefault('block')
            .describe(
              'block: the sources wait. drop_newest: what comes is dropped, counted with the reason `buffer_full`. A disk that is full makes them wait in any case.',
            ),
        }),
      ])
      .prefault({ type: 'memory' })
      .describe('Where events wait for the destination.'),
  })
}

/** For destinations over the network. */
export const deliveryOptions = deliveryOptionsWith(REMOTE)

/** Parsed: durations in milliseconds, sizes in bytes. */
export type DeliveryOptions = z.output<typeof deliveryOptions>
