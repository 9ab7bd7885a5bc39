import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AnyDefinition } from '../../core/component.js'
import type { Config } from '../../engine/config/load.js'
import { secretNamesIn } from '../../engine/config/published/account-secrets.js'
import type { Permissions } from '../../engine/config/published/permissions.js'
import { EventsLeftBehind, leftBehind } from '../../engine/run/state/objections.js'
import { BoundedMap } from '../../lib/bounded-map.js'
import type { Clock } from '../../lib/time.js'
import type { Refusal } from '../../net/http/server/refusal.js'
import type { Bound } from './hosted-bounds.js'
import { type Hosted, hostedConfig, NotHosted, NothingToHost } from './hosted-config.js'
import { type Published, versionName } from './published.js'
import { Feed } from './worker/feed.js'

export interface ReadingOptions {
  /** With a folder for each pipeline. */
  readonly folder: string
  readonly log: Logger
  readonly components: readonly AnyDefinition[]
  readonly permitted: Permissions
  readonly maxDiskPerAccount: number
}

/** What of published documents would run in the service, for those who only look at it. */
export class Readings {
  readonly #options: ReadingOptions

  constructor(options: ReadingOptions) {
    this.#options = options
  }

  /** Throws NotHosted. */
  config(id: string, document: unknown): Config {
    return this.#read(id, document).config
  }

  /** What the service does otherwise than a daemon when it runs this, and why it cannot run it, or not yet, if so. */
  async boundsOf(id: string, document: unknown): Promise<readonly Bound[]> {
    try {
      const { config, bounds } = this.#read(id, document)
      const left = await leftBehind(config, this.#options.log, ['buffer', 'spool'])
      return left.length === 0 ? bounds : [...bounds, { path: '', message: new EventsLeftBehind(left).message }]
    } catch (error) {
      if (!(error instanceof NotHosted)) throw error
      const bound = { path: '', message: `the service cannot run it: ${error.message}` }
      return [error instanceof NothingToHost ? bound : { ...bound, obstacle: true }]
    }
  }

  #read(id: string, document: unknown): Hosted {
    const { folder, components, permitted, maxDiskPerAccount: maxDisk } = this.#options
    const dataDir = join(folder, id, 'state')
    const secrets = Object.fromEntries(secretNamesIn(document).map(name => [name, 'x']))
    const { definition: ingest } = new Feed()
    return hostedConfig(document, { name: '', dataDir, components, ingest, permitted, secrets, maxDisk })
  }
}

/** After a version could not be built, the next attempt waits for this multiple of the time that the attempt took. */
const TIMES_AS_LONG = 20
const LONGEST_REFUSAL_MS = 10_000
const MOST_REFUSALS = 10_000

interface Known {
  readonly version: string
  readonly until: number
  readonly refusal: Refusal
}

/** Remembers for a moment what cannot run: each request would otherwise read its whole configuration again. */
export class Refusals {
  readonly #clock: Clock
  readonly #known = new BoundedMap<string, Known>(MOST_REFUSALS)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  of(published: Published): Refusal | undefined {
    const known = this.#known.get(published.id)
    if (!known) return undefined
    if (known.version === versionName(published) && this.#clock.now() < known.until) return known.refusal
    this.#known.delete(published.id)
    return undefined
  }

  add(published: Published, refusal: Refusal, tookMs: number): void {
    const until = this.#clock.now() + Math.min(LONGEST_REFUSAL_MS, tookMs * TIMES_AS_LONG)
    this.#known.set(published.id, { version: versionName(published), until, refusal })
  }
}
