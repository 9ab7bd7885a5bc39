import { dirname } from 'node:path'
import { z } from 'zod'
import { encodingOption } from '../../core/codecs/options.js'
import { type Destination, type DestinationContext, defineDestination } from '../../core/component.js'
import { DeliveryError, errorCode, errorText, isMissing } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import { LOCAL_DEFAULTS } from '../../core/options/delivery-options.js'
import { filePath, OutOfReach, reaches } from '../../core/options/reach.js'
import { type FileSystems, fileSystems } from '../../lib/files/disk/file-systems.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import { orAborted } from '../../lib/time.js'
import { inTurn } from '../../lib/turns.js'
import { AppendedFile, calls, callsThrough, type FileCalls, TornWrite, writeDirectly } from './appended-file.js'
import { keyOf } from './identity.js'

const options = z.strictObject({
  path: filePath().describe(
    'File to append to: a regular file that no other destination writes to. Its folder is created if it is missing.',
  ),
  encoding: encodingOption('raw'),
  mode: reaches(
    'nothing',
    z.string().regex(/^0?[0-7]{3}$/, { error: 'must be three octal digits in quotes, such as "0640"' }),
  )
    .default('0640')
    .describe('Permissions of a file that is created.'),
  fsync: z
    .boolean()
    .default(false)
    .describe(
      'Whether events count as delivered only after they are synced to disk, where they survive a power failure.',
    ),
})
type Options = z.output<typeof options>

/** How often to check whether the path was rotated, in milliseconds. */
const CHECK_MS = 250

const HINTS: Readonly<Record<string, string>> = {
  ENOSPC: ': free some space',
  EDQUOT: ': free some space or raise the quota',
  EFBIG: ': rotate it, or raise the limit for files (LimitFSIZE= of the unit, ulimit -f)',
  EACCES: ': check its permissions',
  EROFS: ': the file system is read-only',
}

interface Job {
  readonly request: readonly EventBatch[]
  readonly signal: AbortSignal
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Writes requests one after the other. All destinations of the process that write to the same file take turns.
 * With `fsync`, requests that arrive during a sync are written together and share the next sync.
 */
export class FileDestination implements Destination {
  readonly keepsBatches = true
  readonly forgetsSignals = true
  readonly #options: Options
  readonly #context: DestinationContext
  readonly #os: FileCalls
  readonly #fileSystems: FileSystems
  readonly #waiting: Job[] = []
  #working: Promise<void> | undefined
  #opened: AppendedFile | undefined
  #openedBefore = false
  #checkedAt = 0
  #release: (() => void) | undefined
  readonly #torn: { value: number }

  constructor(options: Options, context: DestinationContext, os?: FileCalls) {
    this.#options = options
    this.#context = context
    this.#fileSystems = context.fileSystems ?? fileSystems
    const through = callsThrough(this.#fileSystems, options.path, os ?? calls)
    const isLocal = () => this.#fileSystems.mountOf(options.path) === undefined
    this.#os = context.isAlone && !os ? writeDirectly(through, isLocal, context.clock) : through
    const help = 'Failed writes whose first part could not be removed from the file.'
    this.#torn = context.metrics.counter('sluice_file_torn_writes_total', help)
  }

  /** Registers an existing file before any source starts, so that sources do not read it even if it is not open yet. */
  async claim(): Promise<void> {
    const there = await this.#os.stat(this.#options.path).catch(() => undefined)
    if (there?.isFile()) this.#release = this.#context.writes?.(there)
  }

  async start(): Promise<void> {
    try {
      await this.#current()
    } catch (error) {
      throw this.#failure(error)
    }
  }

  write(request: readonly EventBatch[], signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ request, signal, resolve, reject })
      this.#working ??= this.#work()
    })
  }

  async stop(deadline: AbortSignal): Promise<void> {
    const working = this.#working
    if (working) await orAborted(working, deadline)
    // A descriptor must not be closed during a write, because its number could then be reused for another file.
    if (this.#working) void this.#working.then(() => this.#close())
    else {
      const closed = this.#close()
      const mount = this.#fileSystems.mountOf(this.#options.path)
      // Does not wait for a file system that does not respond: the file is then closed in the background.
      if (mount === undefined || (await this.#fileSystems.answers(mount))) await orAborted(closed, deadline)
    }
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      try {
        const file = await this.#current()
        await inTurn(file.key, () => this.#appendAll(file))
        if (file.isLost) void this.#close()
      } catch (error) {
        for (const job of this.#waiting.splice(0)) job.reject(this.#failure(error))
      }
    }
    // In the same turn as the last look for requests, since a request that arrives between the two would never be written.
    this.#working = undefined
  }

  async #appendAll(file: AppendedFile): Promise<void> {
    const written: Job[] = []
    for (const job of this.#waiting.splice(0)) {
      if (job.signal.aborted) {
        job.reject(job.signal.reason)
        continue
      }
      try {
        await file.append(job.request)
        if (this.#options.fsync) written.push(job)
        else job.resolve()
      } catch (error) {
        this.#countTorn(error)
        job.reject(this.#failure(error))
      }
    }
    if (written.length === 0) return
    try {
      await file.sync()
      for (const job of written) job.resolve()
    } catch (error) {
      for (const job of written) job.reject(this.#failure(error))
    }
  }

  #countTorn(error: unknown): void {
    if (!(error instanceof TornWrite)) return
    this.#torn.value++
    const { log } = this.#context
    const { path } = this.#options
    const text =
      'a write failed and left an incomplete line in the file; all events of this write are written again after this line'
    log.warn({ path, bytes: error.bytes, error: error.message }, text)
  }

  /** The open file. It is opened again after an error, and when the path refers to another file. */
  async #current(): Promise<AppendedFile> {
    const now = this.#context.clock.now()
    if (this.#opened && now - this.#checkedAt >= CHECK_MS) {
      const there = await this.#os.stat(this.#options.path).catch(error => {
        // After other errors, the open file may still be the right one.
        if (!isMissing(error)) throw error
      })
      this.#checkedAt = now
      if (!there || keyOf(there) !== this.#opened.key) {
        this.#context.log.info({ path: this.#options.path }, 'file was rotated; opening the new one')
        void this.#close()
      }
    }
    return this.#opened ?? this.#open()
  }

  async #open(): Promise<AppendedFile> {
    const { mode, encoding } = this.#options
    const { reach } = this.#context
    const path = reach ? reach.realFile(this.#options.path) : this.#options.path
    await this.#fileSystems.run(path, () => makeFolder(dirname(path)))
    const continues = !this.#openedBefore
    const options = { path, encoding, mode: Number.parseInt(mode, 8), continues, reach }
    this.#opened = await AppendedFile.open(options, this.#os)
    const release = this.#context.writes?.(this.#opened.stats)
    this.#release?.()
    this.#release = release
    this.#openedBefore = true
    this.#checkedAt = this.#context.clock.now()
    return this.#opened
  }

  /** Never rejects. On a remote file system, may take until that responds again. */
  async #close(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    this.#release?.()
    this.#release = undefined
    await opened?.close().catch(error => {
      const { log } = this.#context
      const text = 'cannot close the file; events written to it may be lost. To prevent this, set fsync: true'
      log.error({ path: this.#options.path, error: errorText(error) }, text)
    })
  }

  #failure(error: unknown): DeliveryError {
    if (error instanceof DeliveryError) return error
    if (error instanceof OutOfReach) {
      const message = `cannot write ${this.#options.path}: ${error.message}`
      return new DeliveryError(message, { failure: 'hold', reason: 'file_denied', cause: error })
    }
    const cause = error instanceof TornWrite ? error.cause : error
    const code = errorCode(cause) ?? 'unknown'
    const message = `cannot write ${this.#options.path}${HINTS[code] ?? ''} (${errorText(cause)})`
    return new DeliveryError(message, { failure: 'retry', reason: code.toLowerCase().replace(/^sluice_/, ''), cause })
  }
}

export const fileDestination = defineDestination({
  type: 'file',
  summary: 'Appends events to a file.',
  notes:
    'Other programs may append to the same file. If Sluice can write only a part of its events, it removes this part. If another program has already appended to the file, Sluice instead ends the incomplete line, and counts it in `sluice_file_torn_writes_total`. In both cases, Sluice writes all of these events again. After a file was renamed or removed (logrotate), its path is opened again. Events count as delivered when the operating system has accepted them; with `fsync`, when they are on disk.',
  options,
  examples: [
    { title: 'Lines as they were read', yaml: 'path: /var/log/app/errors.log\n' },
    { title: 'JSON, synced to disk', yaml: 'path: ./audit.ndjson\nencoding: json\nfsync: true\n' },
  ],
  delivery: LOCAL_DEFAULTS,
  copiesLines: ({ encoding }) => encoding === 'raw',
  writes: 'path',
  async create(options, context) {
    const destination = new FileDestination(options, context)
    await destination.claim()
    return destination
  },
  explains: async () => {
    const { explainAlone } = await import('../../core/explain.js')
    return { explain: ({ path, encoding }) => explainAlone(encoding, () => `to ${path}`) }
  },
})
