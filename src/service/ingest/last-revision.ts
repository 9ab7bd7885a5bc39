import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { Config } from '../../engine/config/load.js'
import { leftBehind } from '../../engine/run/state/objections.js'
import { writeAtomic } from '../../lib/files/atomic-file.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import { inTurn } from '../../lib/turns.js'
import type { HostedRevision } from './hosted-revision.js'
import type { RunningPipeline } from './running-pipeline.js'

/** In the folder of a pipeline. */
const NAME = 'revision.json'

interface Options {
  /** With a folder for each pipeline. */
  readonly folder: string
  readonly log: Logger
  /** What of a published document runs here. Throws when it cannot. */
  readonly read: (published: HostedRevision) => Config
  /** Another revision of what is published; undefined: it is gone. */
  readonly revision: (published: HostedRevision, revision: number) => Promise<HostedRevision | undefined>
}

/** Which revision of each pipeline ran last, also before a restart: events of its destinations may still be in disk buffers. */
export class LastRevisions {
  readonly #options: Options
  readonly #noted = new WeakMap<RunningPipeline, number>()
  /** Why the last attempt to note the revision of a pipeline failed, by its id. */
  readonly #failures = new Map<string, string>()

  constructor(options: Options) {
    this.#options = options
  }

  /** What ran last, where it has events in disk buffers that `published` has no destination for. */
  async neededBefore(published: HostedRevision): Promise<HostedRevision | undefined> {
    const { log, read, revision } = this.#options
    const last = await this.#read(published.id)
    if (last === undefined || last === published.revision) return undefined
    try {
      const left = await leftBehind(read(published), log, ['buffer', 'spool'])
      return left.length > 0 ? await revision(published, last) : undefined
    } catch {
      // What is published cannot run here, and its start says so.
      return undefined
    }
  }

  /** Notes what runs now. After an update, every request that waited for it calls this. */
  async note(running: RunningPipeline): Promise<void> {
    const path = this.#pathOf(running.id)
    await inTurn(path, () => this.#note(running, path))
  }

  async #note(running: RunningPipeline, path: string): Promise<void> {
    const { id, revision, hasDiskBuffers } = running
    if (!hasDiskBuffers || this.#noted.get(running) === revision) return
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

  /** The pipeline is gone. */
  forget(id: string): void {
    this.#failures.delete(id)
  }

  async #read(id: string): Promise<number | undefined> {
    try {
      const text = await readFile(this.#pathOf(id), 'utf8')
      const { revision } = JSON.parse(text) as { revision?: unknown }
      return typeof revision === 'number' ? revision : undefined
    } catch {
      // It had no disk buffers, or was not noted.
      return undefined
    }
  }

  #pathOf(id: string): string {
    return join(this.#options.folder, id, NAME)
  }
}
