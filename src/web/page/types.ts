import type { PageData } from '../../daemon/page/data.js'
import type { PageWatch } from '../../daemon/page/watch/watch.js'
import type { Books, Status as StatusDocument } from '../../daemon/status/status.js'

/** Responses of the daemon. The page takes only their types from it, so that the two always agree. */
export type { ComponentPage as Detail } from '../../daemon/page/component.js'
export type { AllHistory as Histories, ComponentHistory as History } from '../../daemon/page/history.js'
export type { Finding as Found, Step } from '../../daemon/page/watch/find.js'
export type { KeyEvents, ThrottleKey as Bucket, WhatIf } from '../../daemon/page/watch/throttle-watch.js'
export type { Problem } from '../../daemon/status/problems.js'
export type { Books, ComponentStatus as Component } from '../../daemon/status/status.js'

type Answer<T extends (...args: never) => unknown> = NonNullable<Awaited<ReturnType<T>>>

/** Without series in the stream of changes. */
export type Status = Omit<StatusDocument, 'series'> & Partial<Pick<StatusDocument, 'series'>>
export type Destination = Status['destinations'][number]
export type Sample = StatusDocument['series'][string][number]
export type Throttle = Answer<PageData['throttle']>
export type DeadLetters = Answer<PageData['letters']>
export type Evidence = Answer<PageWatch['evidence']>

/** Events received, sent and discarded since the daemon started; events in flight; utilization in permille. */
export type Counts = readonly [number, number, number, number, number?]

export interface Delivery {
  /** Number of requests. */
  readonly in_flight?: number
  readonly allowed?: number
  readonly retries?: number
  readonly oldest_ms?: number
  readonly buffered_bytes?: number
  readonly buffer_max_bytes?: number
  readonly dead_letters?: number
  readonly p50_ms?: number
  readonly p99_ms?: number
}

export interface Second {
  readonly at: number
  /** Missing while no pipeline runs. */
  readonly books?: Books
  readonly components: Readonly<Record<string, Counts>>
  readonly destinations: Readonly<Record<string, Delivery>>
}

/** For each step, the events per second (for `in_flight`, the number of events), or null if the step is unknown. */
export type Values = readonly (number | null)[]
