import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AnyDefinition } from '../../core/component.js'
import { secretNamesIn } from '../../engine/config/published/account-secrets.js'
import type { Permissions } from '../../engine/config/published/managed-options.js'
import { EventsLeftBehind, leftBehind } from '../../engine/run/state/objections.js'
import type { Bound } from './hosted-bounds.js'
import { type Hosted, hostedConfig, NotHosted, NothingToHost } from './hosted-config.js'
import { Feed } from './worker/feed.js'

export interface PreviewOptions {
  /** Contains a folder for each pipeline. */
  readonly folder: string
  readonly log: Logger
  readonly components: readonly AnyDefinition[]
  readonly permitted: Permissions
  readonly maxDiskPerAccount: number
}

export class HostedPreview {
  readonly #options: PreviewOptions

  constructor(options: PreviewOptions) {
    this.#options = options
  }

  /**
   * Returns how a run in the service differs from a run in a daemon. If the service cannot run the pipeline now,
   * returns the reason.
   */
  async boundsOf(id: string, document: unknown): Promise<readonly Bound[]> {
    try {
      const { config, bounds } = this.read(id, document)
      const left = await leftBehind(config, this.#options.log, ['buffer', 'spool'])
      return left.length === 0 ? bounds : [...bounds, { path: '', message: new EventsLeftBehind(left).message }]
    } catch (error) {
      if (!(error instanceof NotHosted)) throw error
      const bound = { path: '', message: `the service cannot run it: ${error.message}` }
      return [error instanceof NothingToHost ? bound : { ...bound, obstacle: true }]
    }
  }

  /** Throws NotHosted. */
  read(id: string, document: unknown): Hosted {
    const { folder, components, permitted, maxDiskPerAccount: maxDisk } = this.#options
    const dataDir = join(folder, id, 'state')
    const secrets = Object.fromEntries(secretNamesIn(document).map(name => [name, 'x']))
    const { definition: ingest } = new Feed()
    return hostedConfig(document, { name: '', dataDir, components, ingest, permitted, secrets, maxDisk })
  }
}
