import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../core/errors.js'
import { writeAtomic } from '../lib/atomic-file.js'
import { makeFolder } from '../lib/make-folder.js'
import type { PublishedRevision } from './service-link.js'

/**
 * The last revision that ran well, on the disk, for a start while the service is away. The file is replaced as a whole,
 * nobody else may read it, and what is damaged in it is as good as nothing.
 */
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

  async read(): Promise<PublishedRevision | undefined> {
    try {
      const { sum, kept } = JSON.parse(await readFile(this.#path, 'utf8')) as { sum: unknown; kept: string }
      if (sum !== crc32(kept)) throw new Error('its checksum is wrong')
      const { url, revision, config, etag } = JSON.parse(kept) as PublishedRevision & { url: string }
      return url === this.#url ? { revision, config, etag } : undefined
    } catch (error) {
      if (errorCode(error) !== 'ENOENT')
        this.#log.warn({ file: this.#path, error: errorText(error) }, 'the kept revision cannot be used')
      return undefined
    }
  }

  /** That it cannot be kept is told, and no more: what runs goes on. */
  async write({ revision, config, etag }: PublishedRevision): Promise<void> {
    try {
      const kept = JSON.stringify({ url: this.#url, revision, etag, config })
      await makeFolder(this.#folder, 0o700)
      await writeAtomic(this.#path, `${JSON.stringify({ sum: crc32(kept), kept })}\n`)
    } catch (error) {
      this.#log.error({ file: this.#path, error: errorText(error) }, 'the revision that runs cannot be kept')
    }
  }
}
