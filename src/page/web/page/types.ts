export type { Books, ComponentStatus as Component, ReportedProblem as Problem } from '../../../core/status-document.js'

import type { Status as StatusDocument } from '../../../core/status-document.js'
import type { PageData } from '../../server/data.js'
import type { Seconds } from '../../server/second.js'
import type { PageWatch } from '../../server/watch/watch.js'

/** Responses of the daemon. The page takes only their types from it, so that the two always agree. */
export type { ComponentPage as Detail } from '../../server/component.js'
export type { AllHistory as Histories, ComponentHistory as History } from '../../server/history.js'
export type { EventStep, FoundEvents as Found } from '../../server/watch/find.js'
export type { KeyEvents, ThrottleKey as Bucket, WhatIf } from '../../server/watch/throttle-watch.js'

type Answer<T extends (...args: never) => unknown> = NonNullable<Awaited<ReturnType<T>>>

export type PageStatus = Omit<StatusDocument, 'series'>
export type ShownDestination = PageStatus['destinations'][number]
export type ShownThrottle = Answer<PageData['throttle']>
export type ShownLetters = Answer<PageData['letters']>
export type Evidence = Answer<PageWatch['evidence']>
export type Second = Answer<Seconds['next']>

/** For each step, the events per second (for `in_flight`, the number of events), or null if the step is unknown. */
export type Values = readonly (number | null)[]
