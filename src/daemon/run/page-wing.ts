import type { Logger } from 'pino'
import type { PageState } from '../../core/status-document.js'
import type { Config } from '../../engine/config/load.js'
import type { StatusPageOptions } from '../../engine/config/status-page-options.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { Follower } from '../../engine/run/supervisor.js'
import type { TimerClock } from '../../lib/time.js'
import type { Page, Served } from '../admin/server.js'
import type { Tappable } from '../admin/tap.js'

/** The watched pipeline. A reload replaces the pipeline's engine. */
export interface Followed {
  follow(follower: Follower): () => void
}

/** What a page shows. */
export interface PageSources {
  readonly reports: Served & { readonly metrics: Metrics }
  readonly pipeline: Tappable & Followed
  readonly config: () => Config
  readonly clock: TimerClock
}

/** The page of a daemon. */
export interface ServedPage extends Page {
  readonly url: string | undefined
  readonly state: PageState
  /** Reads the token, and listens at a new address. `use` closes the old server, and `drop` the new one. */
  prepare(options: StatusPageOptions): Promise<{ use(): void; drop(): void }>
  close(): void
}

interface PageWing {
  readonly StatusPage: new (from: PageSources, options: StatusPageOptions, log: Logger) => ServedPage
}

/** The commands that run a daemon set how the page is loaded, because the daemon is whole without it. */
export const pageWing: { load?: () => Promise<PageWing> } = {}
