/** Responses of the daemon. docs/status-api.md describes the members of Status. Members may be added at any time. */

export interface Problem {
  readonly what: string
  readonly detail?: string
  readonly todo: string
  readonly commands?: readonly string[]
  readonly component?: string
}

export interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Component {
  readonly id: string
  readonly kind: string
  readonly type: string
  readonly received: number
  readonly sent: number
  readonly discarded: number
  readonly in_flight: number
  readonly utilization?: number
  readonly per_second?: { readonly received: number; readonly received_bytes: number; readonly sent: number }
  /** Ids of components, or `id.output`. */
  readonly inputs?: readonly string[]
  readonly side_outputs?: Readonly<Record<string, number>>
  readonly errors?: number
  readonly last_error?: string
}

export interface Destination {
  readonly id: string
  readonly state: string
  readonly reason?: string
  readonly requests?: { readonly in_flight: number; readonly allowed: number }
  readonly since?: string
  readonly failures?: number
  readonly last_failure?: string
  readonly next_attempt?: string
  readonly oldest_event?: string
  readonly last_outage?: {
    readonly since: string
    readonly until: string
    readonly failures: number
    readonly error?: string
  }
}

export interface Waiting {
  readonly id: string
  readonly events: number
  readonly options: readonly string[]
  readonly buckets: readonly { readonly key: string | null; readonly events: number; readonly since: string }[]
}

export interface Books {
  readonly received: number
  readonly given_back?: number
  readonly emitted?: Readonly<Record<string, number>>
  readonly consumed?: Readonly<Record<string, number>>
  /** Missing if events take several paths, because the counts then do not add up. */
  readonly passed?: number
  readonly discarded: Readonly<Record<string, Readonly<Record<string, number>>>>
  readonly delivered: Readonly<Record<string, number>>
  readonly undelivered?: number
  readonly in_flight?: number
}

export interface Status {
  readonly at: string
  readonly ready: boolean
  readonly stopping?: boolean
  readonly reloading_since?: string
  readonly started_at?: string
  readonly version_of_sluice?: string
  readonly host?: string
  readonly config?: string
  readonly data_dir?: string
  readonly problems: readonly Problem[]
  readonly notices: readonly Problem[]
  readonly bottleneck?: { readonly id: string; readonly share: number }
  readonly destinations: readonly Destination[]
  readonly sources: readonly { readonly id: string; readonly state: string; readonly reason: string }[]
  readonly processors: readonly {
    readonly id: string
    readonly isStuck?: boolean
    readonly reason: string
    readonly since: string
  }[]
  readonly waiting: readonly Waiting[]
  readonly components: readonly Component[]
  readonly books?: Books
  readonly series?: Readonly<Record<string, readonly Sample[]>>
  readonly status_page?: {
    readonly memory: number
    readonly used: number
    readonly history_seconds: number
    readonly history_step_ms: number
    readonly token: boolean
  }
}

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
  readonly at: string | number
  readonly books: Books
  readonly components: Readonly<Record<string, Counts>>
  readonly destinations: Readonly<Record<string, Delivery>>
}

/** For each step, the events per second (for `in_flight`, the number of events), or null if the step is unknown. */
export type Values = readonly (number | null)[]

export interface History {
  readonly from: string | number
  readonly step_ms: number
  readonly values: Readonly<Record<string, Values>>
}

export interface Histories {
  readonly from: string | number
  readonly step_ms: number
  readonly components: Readonly<Record<string, Readonly<Record<string, Values>>>>
}

export interface Detail {
  readonly id: string
  readonly kind: string
  readonly type: string
  readonly summary: string
  /** YAML. */
  readonly config: string
  readonly file?: string
  readonly line?: number
  readonly docs?: string
  readonly series: readonly (Sample & { readonly name: string; readonly help?: string })[]
}

export interface KeyEvents {
  readonly passed: number
  readonly discarded: number
}

export interface Bucket {
  readonly key: string | null
  /** Events per second over the last minute. */
  readonly passed: number
  readonly discarded: number
  readonly last_minute: KeyEvents
  readonly ten_minutes: KeyEvents
  readonly used: number
  readonly limit: number
  readonly window_ms: number
  /** 1: the events reach the limit. */
  readonly pressure: number
  readonly since?: string | null
  readonly history?: { readonly passed: Values; readonly discarded: Values }
}

export interface Throttle {
  readonly id: string
  readonly key_field: readonly string[]
  readonly limits: readonly {
    readonly limit: number
    readonly unit?: string
    readonly window_ms: number
    readonly mode: string
  }[]
  readonly rules: number
  readonly buckets: number
  readonly max_keys?: number
  readonly summary_ms?: number
  readonly keys: readonly Bucket[]
  /** Number of buckets that were searched. `found` is the number of these buckets that match. */
  readonly searched: number
  readonly found: number
  /** The bucket that the filter names, if the throttle does not count the events of this bucket by key. */
  readonly uncounted?: {
    readonly key: string
    /** `used`, `limit` and `window_ms` are missing if they depend on the event. */
    readonly used?: number
    readonly limit?: number
    readonly window_ms?: number
    readonly unit?: string
    readonly discarded_last_hour: number
    readonly discarded_since: string
    readonly is_exact: boolean
  }
  readonly counted?: {
    readonly from: string
    readonly exact: boolean
    readonly keys: number
    readonly most_keys: number
    readonly of: string
  }
}

export interface WhatIf {
  readonly from: string
  readonly to: string
  readonly events: number
  readonly exact: boolean
  readonly why_not_exact?: string
  readonly was: { readonly passed: number; readonly discarded: number }
  readonly would: { readonly passed: number; readonly discarded: number }
  readonly curve: {
    readonly at: string | number | readonly number[]
    readonly step_ms: number
    readonly offered: Values
    readonly was: Values
    readonly would: Values
  }
  readonly keys: readonly {
    readonly key: string | null
    readonly offered: number
    readonly was: number
    readonly would: number
  }[]
  readonly keys_count?: number
  readonly yaml: string
  readonly since?: string
}

export interface Found {
  readonly looked_at: readonly {
    readonly kind: string
    /** null while no events are kept. */
    readonly from: string | null
    readonly kept: number
    readonly one_in?: number
    readonly bytes?: number
  }[]
  readonly found: readonly { readonly event: unknown; readonly text?: string; readonly steps: readonly Step[] }[]
  readonly more?: boolean
}

export interface Step {
  readonly at?: string | number
  readonly component: string
  readonly what: string
  readonly reason?: string
  readonly words?: string
  readonly rule?: string
  readonly bucket?: string | null
}

export interface Evidence {
  readonly from?: string
  readonly events: readonly {
    readonly at: string | number
    readonly reason: string
    readonly words?: string
    readonly bucket?: string | null
    readonly rule?: string
    readonly event: unknown
  }[]
}

export interface DeadLetters {
  readonly total: number
  /** Number of the newest events that were inspected. `reasons` does not include older events. */
  readonly looked_at: number
  /** Whether `looked_at` counts all events of the queue. */
  readonly all: boolean
  readonly reasons: readonly {
    readonly reason: string
    readonly words?: string
    readonly count: number
    readonly newest_at?: string
    readonly sample?: unknown
  }[]
  readonly command: string
}
