import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Logger } from 'pino'
import { errorText } from '../core/errors.js'
import { NewerFormat, readState, refuseNewer, StateUnreadable } from '../core/unreadable.js'
import { writeAtomic } from '../lib/atomic-file.js'
import { makeFolder } from '../lib/make-folder.js'
import type { PublishedRevision } from './service-link.js'

/**
 * The last revision that ran well, on the disk, for a start while the service is away. The file is replaced as a whole,
 * nobody else may read it, and a damaged one is not used. One that cannot be read now is not taken for damaged.
 */
const FORMAT = 1

export class KeptRevision {
  readonly #folder: string
  readonly #path: string
  readonly #url: string
  readonly #log: Logger

  /** `url` tells whose revision it is. */
  constructor(dataDir: string, { url, id, log }: { url: string; id: string; log: Logger }) {
    this.#folder = join(dataDir, 'managed')
    this.#path = join(this.#folder, `${id}.json`)
    this.#url = url
    this.#log = log
  }

  /** Undefined: there is none, or a damaged one. Throws StateUnreadable when it cannot be read now. */
  async read(): Promise<PublishedRevision | undefined> {
    const text = await readState(this.#path, path => readFile(path, 'utf8'))
    if (text === undefined) return undefined
    try {
      const { format, sum, kept } = JSON.parse(text) as { format?: unknown; sum: unknown; kept: string }
      refuseNewer(format, FORMAT)
      if (sum !== crc32(kept)) throw new Error('its checksum is wrong')
      const { url, revision, config, etag } = JSON.parse(kept) as PublishedRevision & { url: string }
      return url === this.#url ? { revision, config, etag } : undefined
    } catch (error) {
      if (error instanceof NewerFormat) throw new StateUnreadable(this.#path, error)
      this.#log.error(
        { code: 'SLUICE_REVISION_DAMAGED', file: this.#path, error: errorText(error) },
        'the cached revision is damaged and is not used',
      )
      return undefined
    }
  }

  /** That it cannot be kept is told, and no more: what runs goes on. */
  async write({ revision, config, etag }: PublishedRevision): Promise<void> {
    try {
      const kept = JSON.stringify({ url: this.#url, revision, etag, config })
      await makeFolder(this.#folder, 0o700)
      await writeAtomic(this.#path, `${JSON.stringify({ format: FORMAT, sum: crc32(kept), kept })}\n`)
    } catch (error) {
      this.#log.error({ file: this.#path, error: errorText(error) }, 'the revision that runs cannot be kept')
    }
  }
}
