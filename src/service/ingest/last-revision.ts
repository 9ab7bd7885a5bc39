import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import { readState } from '../../core/unreadable.js'
import type { Config } from '../../engine/config/load.js'
import { leftBehind } from '../../engine/run/state/objections.js'
import { writeAtomic } from '../../lib/files/atomic-file.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import { inTurn } from '../../lib/turns.js'
import type { HostedRevision } from './hosted-revision.js'
import type { RunningPipeline } from './running-pipeline.js'

const NAME = 'revision.json'

interface Options {
  readonly folder: string
  readonly log: Logger
  /** Returns the configuration to run for a published revision. Throws if the revision cannot run. */
  readonly read: (published: HostedRevision) => Config
  readonly revision: (published: HostedRevision, revision: number) => Promise<HostedRevision | undefined>
}

/**
 * Records on disk which revision of each pipeline ran last. This revision may have left events in disk buffers or spools.
 */
export class LastRevisions {
  readonly #options: Options
  readonly #noted = new WeakMap<RunningPipeline, number>()
  /** Why the revision of a pipeline could not be saved, by pipeline id. */
  readonly #failures = new Map<string, string>()

  constructor(options: Options) {
    this.#options = options
  }

  /**
   * Returns the revision that ran last, if its disk buffers or spools contain events for a destination that `published`
   * does not have. Throws if this cannot be found out, because the published revision must not run before that revision.
   */
  async neededBefore(published: HostedRevision): Promise<HostedRevision | undefined> {
    const last = await this.#read(published.id)
    if (last === undefined || last === published.revision) return undefined
    const left = await this.#leftBehind(published)
    return left.length > 0 ? await this.#options.revision(published, last) : undefined
  }

  async #leftBehind(published: HostedRevision): Promise<readonly unknown[]> {
    const { log, read } = this.#options
    try {
      return await leftBehind(read(published), log, ['buffer', 'spool'])
    } catch {
      // The published revision cannot run here. Its start reports the reason.
      return []
    }
  }

  /** Saves the number of the running revision. Called for every request that waited for an update. */
  async note(running: RunningPipeline): Promise<void> {
    const path = this.#pathOf(running.id)
    await inTurn(path, () => this.#note(running, path))
  }

  async #note(running: RunningPipeline, path: string): Promise<void> {
    const { id, revision, keepsEventsOnDisk } = running
    if (!keepsEventsOnDisk || this.#noted.get(running) === revision) return
    const { log } = this.#options
    try {
      await makeFolder(dirname(path), 0o700)
      await writeAtomic(path, `${JSON.stringify({ revision })}\n`)
      this.#noted.set(running, revision)
      if (this.#failures.delete(id)) log.info({ pipeline: id }, 'the number of the running revision can be saved again')
    } catch (cause) {
      const error = errorText(cause)
      if (this.#failures.get(id) === error) return
      this.#failures.set(id, error)
      log.warn({ pipeline: id, error }, 'cannot save the number of the running revision; check the disk of data_dir')
    }
  }

  forget(id: string): void {
    this.#failures.delete(id)
  }

  async #read(id: string): Promise<number | undefined> {
    const text = await readState(this.#pathOf(id), path => readFile(path, 'utf8'))
    // Either the last revision had no disk buffers and no spools, or its number was not saved.
    if (text === undefined) return undefined
    try {
      const { revision } = JSON.parse(text) as { revision?: unknown }
      return typeof revision === 'number' ? revision : undefined
    } catch {
      return undefined
    }
  }

  #pathOf(id: string): string {
    return join(this.#options.folder, id, NAME)
  }
}
