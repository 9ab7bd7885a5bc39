import { z } from 'zod'
import { byteSize, duration, once } from './options.js'

/** Defaults by type of destination, because files need order and short waits, but services need full requests. */
export interface DeliveryDefaults {
  readonly max_events: number
  readonly max_bytes: string
  readonly bytes: string
  readonly max_wait: string
  readonly max_in_flight: number | 'auto'
}

const REMOTE: DeliveryDefaults = {
  max_events: 1000,
  max_bytes: '1MB',
  bytes:
    'Maximum bytes of one request, encoded but not compressed. After a 413, the size of the largest accepted part becomes the limit. This limit doubles after every 1,000 accepted requests.',
  max_wait: '1 Seconds',
  max_in_flight: 'auto',
}

/** Defaults for destinations on the same machine, which keep the order and wait only briefly. */
export const LOCAL_DEFAULTS: DeliveryDefaults = {
  max_events: 50_000,
  max_bytes: '1MB',
  bytes: 'Maximum bytes of events per write, as measured when they were read.',
  max_wait: '10ms',
  max_in_flight: 1,
}

/** The side output of a destination for events that it rejects permanently. */
export const REJECTED = 'rejected'

/** Minimum size of a buffer in bytes. A smaller buffer could not be divided into segment files. */
const SMALLEST_BUFFER = 1_000_000

const BUFFER_TYPE =
  'memory: events are acknowledged when they are delivered; until then their sources wait. disk: events are acknowledged when they are safe in files under data_dir. While the destination is unavailable, other destinations continue.'

/** Maximum of `max_in_flight: auto`. */
const AUTO_AT_MOST = 64

/** A number, or the maximum that `auto` may reach. */
const maxInFlight = once(() =>
  z.union(
    [
      z.literal('auto').transform((): { readonly atMost: number } => ({ atMost: AUTO_AT_MOST })),
      z.int().min(1).max(1000),
    ],
    { error: 'must be auto or a whole number from 1 to 1000' },
  ),
)

export const mostInFlight = (max: number | { readonly atMost: number }): number =>
  typeof max === 'number' ? max : max.atMost

const DAY_MS = 86_400_000

/** A duration of at most one day, which fits a timer. */
function wait(fallback: string) {
  return duration()
    .refine(ms => ms <= DAY_MS, { error: 'must be at most 24 Hours', params: { constant: true } })
    .prefault(fallback)
}

/** Returns the options that all destinations have in common. engine/flow/delivery/delivery.ts applies these options. */
export function deliveryOptionsWith(defaults: DeliveryDefaults) {
  return z.strictObject({
    batch: z
      .strictObject({
        max_events: z
          .int()
          .min(1)
          .max(1_000_000)
          .prefault(defaults.max_events)
          .describe('Maximum number of events in one request.'),
        max_bytes: byteSize(1, 1024 ** 3)
          .prefault(defaults.max_bytes)
          .describe(`${defaults.bytes} A single larger event is sent alone.`),
        max_wait: wait(defaults.max_wait).describe(
          'Maximum time that an event waits for other events to join its request.',
        ),
      })
      .prefault({})
      .describe('How events are batched into requests.'),
    retry: z
      .strictObject({
        initial: wait('1 Seconds').describe(
          'The longest wait before the first retry. This limit doubles with each attempt; the actual wait is a random part of the limit.',
        ),
        max: wait('30 Seconds').describe(
          'The longest wait between two attempts. A longer Retry-After from the receiver is honored, up to an hour.',
        ),
        max_attempts: z
          .int()
          .min(1)
          .optional()
          .describe(
            'Gives up a request after this many attempts, and handles it as set by `on_reject`. With `max_in_flight: auto`, refusals do not count while other requests are in flight. Default: never.',
          ),
        max_elapsed: duration()
          .optional()
          .describe(
            "Time from a request's first failed attempt until Sluice gives it up; `on_reject` then applies. Default: never.",
          ),
      })
      .prefault({})
      .describe('How failed requests are retried. By default, retries never end.'),
    timeout: wait('30 Seconds').describe('Timeout of one attempt, from connecting to the complete response.'),
    max_in_flight: maxInFlight()
      .prefault(defaults.max_in_flight)
      .describe(
        'Maximum number of concurrent requests; 1 preserves the order of events. auto: 1 to 64, initially 4. While requests wait and latency hardly rises, the number grows; 408, 429, 503, 504 and timeouts halve it.',
      ),
    hold_after_refusals: z
      .int()
      .min(0)
      .max(1_000_000)
      .prefault(5)
      .describe(
        'Pauses the destination after this many consecutive requests were rejected for the same reason (0: never). One request is retried at least every minute until it is accepted. After a first accepted request, only 404, 405, 410 and 421 count.',
      ),
    on_reject: z
      .enum(['dead_letter', 'discard'])
      .prefault('dead_letter')
      .describe(
        'What happens to events that the destination rejects permanently. dead_letter: they are kept in a file under data_dir for `sluice resend`, or passed to components with the input `ID.rejected`. discard: they are discarded. In both cases, they are counted with the reason.',
      ),
    buffer: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.literal('memory').describe(BUFFER_TYPE) }),
        z.strictObject({
          type: z.literal('disk').describe(BUFFER_TYPE),
          max_bytes: byteSize(SMALLEST_BUFFER).prefault('1GB').describe('Maximum total size of the buffer files.'),
          when_full: z
            .enum(['block', 'drop_newest'])
            .prefault('block')
            .describe(
              'block: the sources wait. drop_newest: new events are discarded with the reason `buffer_full`. If the disk is full, the sources wait in either case.',
            ),
        }),
      ])
      .prefault({ type: 'memory' })
      .describe('Where events wait for the destination.'),
  })
}

export const deliveryOptions = deliveryOptionsWith(REMOTE)

/** Parsed options: durations in milliseconds, sizes in bytes. */
export type DeliveryOptions = z.output<typeof deliveryOptions>
