import type { PageData } from '../../daemon/page/data.js'
import type { Seconds } from '../../daemon/page/second.js'
import type { PageWatch } from '../../daemon/page/watch/watch.js'
import type { Status as StatusDocument } from '../../daemon/status/status.js'

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
export type Second = Answer<Seconds['next']>

/** For each step, the events per second (for `in_flight`, the number of events), or null if the step is unknown. */
export type Values = readonly (number | null)[]
