import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { Config } from '../../engine/config/load.js'
import { leftBehind } from '../../engine/run/state/objections.js'
import { writeAtomic } from '../../lib/files/atomic-file.js'
import type { Published } from './published.js'
import type { RunningPipeline } from './running-pipeline.js'

/** In the folder of a pipeline. */
const NAME = 'revision.json'

interface Options {
  /** With a folder for each pipeline. */
  readonly folder: string
  readonly log: Logger
  /** What of a published document runs here. Throws when it cannot. */
  readonly read: (published: Published) => Config
  /** Another revision of what is published; undefined: it is gone. */
  readonly revision: (published: Published, revision: number) => Promise<Published | undefined>
}

/** Which revision of each pipeline ran last, also before a restart: events of its destinations may still be in disk buffers. */
export class LastRevisions {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /** What ran last, where it has events in disk buffers that `published` has no destination for. */
  async neededBefore(published: Published): Promise<Published | undefined> {
    const { log, read, revision } = this.#options
    const last = await this.#noted(published.id)
    if (last === undefined || last === published.revision) return undefined
    try {
      const left = await leftBehind(read(published), log, ['buffer'])
      return left.length > 0 ? await revision(published, last) : undefined
    } catch {
      // What is published cannot run here, and its start says so.
      return undefined
    }
  }

  /** It runs now. */
  async note({ id, revision, hasDiskBuffers }: RunningPipeline): Promise<void> {
    if (!hasDiskBuffers) return
    const { folder, log } = this.#options
    try {
      await writeAtomic(join(folder, id, NAME), `${JSON.stringify({ revision })}\n`)
    } catch (error) {
      log.warn({ pipeline: id, error: errorText(error) }, 'cannot note which revision runs; check the disk of data_dir')
    }
  }

  async #noted(id: string): Promise<number | undefined> {
    try {
      const text = await readFile(join(this.#options.folder, id, NAME), 'utf8')
      const { revision } = JSON.parse(text) as { revision?: unknown }
      return typeof revision === 'number' ? revision : undefined
    } catch {
      // It had no disk buffers, or was not noted.
      return undefined
    }
  }
}
