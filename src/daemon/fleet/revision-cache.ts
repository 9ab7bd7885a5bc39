import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../core/errors.js'
import { NewerFormat, readState, refuseNewer, StateUnreadable } from '../../core/unreadable.js'
import { writeAtomic } from '../../lib/files/atomic-file.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import { parseJson } from '../../lib/formats/json-text.js'
import type { PublishedRevision } from './service-link.js'

/**
 * Caches in a file the last revision that ran well. While the service is unreachable, a start uses this revision. The
 * file is replaced atomically, and only its owner can read it. A damaged file is ignored. A file that cannot be read at
 * the moment does not count as damaged.
 */
const FORMAT = 1

export class RevisionCache {
  readonly #folder: string
  readonly #path: string
  readonly #url: string
  readonly #log: Logger
  /** Why the last revision could not be saved; empty if it was saved. */
  #failure = ''

  /** `url`: the URL of the pipeline. A cached revision with another URL is ignored. */
  constructor(dataDir: string, { url, id, log }: { url: string; id: string; log: Logger }) {
    this.#folder = join(dataDir, 'managed')
    this.#path = join(this.#folder, `${id}.json`)
    this.#url = url
    this.#log = log
  }

  /**
   * Resolves with undefined if the file is missing or damaged. Throws StateUnreadable if it cannot be read at the
   * moment.
   */
  async read(): Promise<PublishedRevision | undefined> {
    const text = await readState(this.#path, path => readFile(path, 'utf8'))
    if (text === undefined) return undefined
    try {
      const { url, revision, config, etag } = parse(text)
      return url === this.#url ? { revision, config, etag } : undefined
    } catch (error) {
      if (error instanceof NewerFormat) throw new StateUnreadable(this.#path, error)
      this.#log.error(
        { code: 'SLUICE_REVISION_DAMAGED', file: this.#path, error: errorText(error) },
        'the cached revision is damaged; ignoring it',
      )
      return undefined
    }
  }

  /**
   * Saves a revision. Logs a failure unless the previous write failed with the same text. The revision runs even if it
   * cannot be saved.
   */
  async write({ revision, config, etag }: PublishedRevision): Promise<void> {
    try {
      const kept = JSON.stringify({ url: this.#url, revision, etag, config })
      await makeFolder(this.#folder, 0o700)
      await writeAtomic(this.#path, `${JSON.stringify({ format: FORMAT, sum: crc32(kept), kept })}\n`)
      if (this.#failure !== '') this.#log.info({ file: this.#path }, 'the running revision is cached again')
      this.#failure = ''
    } catch (cause) {
      const error = errorText(cause)
      if (error !== this.#failure) this.#log.error({ file: this.#path, error }, 'cannot cache the running revision')
      this.#failure = error
    }
  }
}

function parse(text: string): PublishedRevision & { readonly url: string } {
  const { format, sum, kept } = parseJson(text) as { format?: unknown; sum: unknown; kept: string }
  refuseNewer(format, FORMAT)
  if (sum !== crc32(kept)) throw new Error('its checksum is wrong')
  return parseJson(kept) as PublishedRevision & { readonly url: string }
}

/** A cached revision, for commands that inspect the configuration of a managed daemon. */
export interface CachedRevision {
  readonly pipeline: string
  readonly revision: number
  readonly config: unknown
  /** When the revision was saved; wall clock in milliseconds. */
  readonly savedAt: number
}

/** Returns the last revision that the managed daemon of this data_dir ran, if any. Throws StateUnreadable. */
export async function cachedRevision(dataDir: string): Promise<CachedRevision | undefined> {
  const folder = join(dataDir, 'managed')
  const names = await readdir(folder).catch(error => {
    if (errorCode(error) === 'ENOENT') return []
    throw new StateUnreadable(folder, error)
  })
  let newest: { path: string; pipeline: string; savedAt: number } | undefined
  for (const name of names) {
    const [, pipeline] = /^([0-9a-f]{24})\.json$/.exec(name) ?? []
    if (pipeline === undefined) continue
    const path = join(folder, name)
    const { mtimeMs } = await stat(path)
    if (!newest || mtimeMs > newest.savedAt) newest = { path, pipeline, savedAt: mtimeMs }
  }
  if (!newest) return undefined
  const { path, pipeline, savedAt } = newest
  try {
    const { revision, config } = parse(await readFile(path, 'utf8'))
    return { pipeline, revision, config, savedAt }
  } catch (error) {
    throw new StateUnreadable(path, error)
  }
}
