import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { Clock } from '../../lib/time.js'
import type { ProcessBounds } from './process/account-process.js'
import type { StartLink } from './process/link.js'
import type { Published } from './published.js'
import type { ReadingOptions } from './readings.js'
import type { RoomBounds } from './room.js'

export interface IngestHostOptions extends ProcessBounds, RoomBounds, ReadingOptions {
  readonly clock: Clock
  readonly metrics: Metrics
  /** Lines of a scrape of one account, and of all. */
  readonly maxSeries: { readonly group: number; readonly all: number }
  /** Starts the process of an account. */
  readonly startProcess: StartLink
  /** Where the service listens. */
  readonly ownPorts: () => readonly number[]
  readonly maxBody: number
  /** Memory that requests to one pipeline which are not answered may hold. */
  readonly maxUnsettled: number
  /** Memory that all requests which are not answered may hold together. */
  readonly maxUnsettledOfAll: number
  /** Bytes that the saved revisions of an account take, which are a part of that. */
  readonly revisionBytes: (account: string) => number
  /** Requests that are not answered, of all pipelines. */
  readonly maxRequests: number
  /** Another revision of what is published; undefined: it is gone. */
  readonly revision: (published: Published, revision: number) => Promise<Published | undefined>
  /** Usually left out. */
  readonly turnMs?: number
  readonly waitMs?: number
}
