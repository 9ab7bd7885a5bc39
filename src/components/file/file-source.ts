import { basename } from 'node:path'
import type { Output, Source, SourceContext } from '../../core/component.js'
import { GivenBackError } from '../../core/errors.js'
import { PIECES, Splitting } from '../../core/options/multiline-options.js'
import { orUnknown, withFile } from '../../lib/files/disk/disk.js'
import { fileSystems } from '../../lib/files/disk/file-systems.js'
import { TimeSlices } from '../../lib/time-slices.js'
import { KnownBeginnings } from './beginnings.js'
import { Descriptors } from './descriptors.js'
import { Discovery, type FoundFile } from './discovery/discovery.js'
import { Remote } from './discovery/remote.js'
import { type OnHint, Watches } from './discovery/watches.js'
import { registerGauges } from './gauges.js'
import { FINGERPRINT_BYTES } from './identity.js'
import { OpenFiles } from './open-files.js'
import type { FileOptions } from './options.js'
import { PathProblems } from './path-problems.js'
import { Reader } from './reading/reader.js'
import type { Tailer, TailerContext } from './reading/tailer.js'
import { Waker } from './reading/waker.js'
import { Losses } from './rotation/losses.js'
import { Saved, type SavedDocument } from './saved.js'

/** Saving new files takes at most 1/20 of the time. */
const SAVE_SHARE = 20
/** Minimum time between sweeps, as a multiple of the last sweep's duration. */
const SWEEP_SHARE = 50
/** URGENT_SHARE: this multiple for urgent sweeps. URGENT_MS: minimum delay of an urgent sweep in milliseconds. */
const URGENT_SHARE = 10
const URGENT_MS = 20

export class FileSource implements Source {
  readonly #options: FileOptions
  readonly #context: SourceContext
  readonly #saved: Saved
  readonly #compressedSince: number
  readonly #problems: PathProblems
  readonly #descriptors: Descriptors
  readonly #discovery: Discovery
  readonly #remote: Remote
  readonly #openFiles: OpenFiles
  readonly #reader: Reader
  readonly #watches: Watches
  readonly #waker = new Waker()
  readonly #scans: { value: number }
  #out: Output | undefined
  #stopped = false
  #swept = false
  /** Whether the last sweep left something out because a file system does not respond. */
  #isBlocked = false
  /** Paths at which a watch reported other files than before, and until when all names had been seen. */
  #renamed = new Map<string, number>()
  /** Files that the daemon may not read, and that a watch reported as changed. */
  #denied = new Set<string>()
  /** For these paths. Reports that come one after the other share a slice. */
  readonly #slices: TimeSlices
  #sweepAt = 0
  /** When the last whole sweep began. */
  #sweptAt = 0
  #busyMs = 0
  #saving = false
  #saveAt = 0
  /** Whether a sweep is needed before its regular time, and the earliest time of that sweep. */
  #urgent = false
  #urgentAt = 0
  /**
   * The earliest time of a sweep that is needed only because files wait, and its delay in milliseconds. The delay
   * doubles while only possible copies wait.
   */
  #heldAt = 0
  #heldMs = 0

  constructor(options: FileOptions, context: SourceContext) {
    const { checkpoints, clock, metrics, log } = context
    this.#options = options
    this.#context = context
    this.#slices = new TimeSlices(clock)
    this.#saved = new Saved(checkpoints.read())
    this.#compressedSince = this.#saved.compressedSince ?? (options.read_from === 'end' ? clock.wall() : 0)
    this.#problems = new PathProblems(context)
    this.#remote = new Remote(context.fileSystems ?? fileSystems, log, clock)
    this.#descriptors = new Descriptors(options.max_open_files)
    const shared = { problems: this.#problems, clock, remote: this.#remote }
    this.#discovery = new Discovery(options.include, options.exclude, shared)
    const truncations = metrics.counter(
      'sluice_file_truncations_total',
      'Files that were truncated and read again from their beginning.',
    )
    this.#scans = metrics.counter('sluice_file_scans_total', 'Completed scans of all files; see scan_interval.')
    const losses = new Losses(context)
    const tailing: TailerContext = {
      clock,
      splitting: new Splitting(options, context.metrics),
      remote: this.#remote,
      pieces: metrics.counter(...PIECES),
      before: Buffer.allocUnsafeSlow(2 * FINGERPRINT_BYTES),
      beginnings: new KnownBeginnings(),
      grown: new Set(),
      lookedAt: () => this.#openFiles.lookedAt,
      onChanged: () => checkpoints.changed(),
      onMoved: (tailer: Tailer, before) => this.#openFiles.moved(tailer, before),
      onErrored: tailer => {
        // After the stop, the committed position stays before the batch, so the next start reads the batch again.
        if (this.#stopped) return this.#reader.giveUp()
        tailer.rewind()
        this.#openFiles.releaseCopy(tailer)
        this.#reader.fail(
          new GivenBackError('a batch was not delivered; reading its file again from the last checkpoint'),
        )
      },
      onTruncated: (path, read, unread) => {
        truncations.value++
        const fields = { file: path, read_bytes: read, unread_bytes: unread }
        log.warn(
          fields,
          'file was truncated; reading it from its beginning and searching for a copy of its old content',
        )
        this.#urgent = true
        this.#waker.wake()
      },
      onHole: (path, bytes) =>
        log.warn(
          { file: path, hole_bytes: bytes },
          'skipped a hole at the beginning of the file: the writer continued at the old position after a truncation. Configure the writer to open the file for appending, or rotate by renaming',
        ),
    }
    this.#openFiles = new OpenFiles({
      context,
      options,
      compressedSince: options.read_old_compressed ? 0 : this.#compressedSince,
      saved: this.#saved,
      tailing,
      problems: this.#problems,
      descriptors: this.#descriptors,
      rotations: metrics.counter(
        'sluice_file_rotations_total',
        'New files under the name of a file that was read before.',
      ),
      losses,
      areWatched: () => this.#watches.areComplete,
      onReady: tailer => this.#reader.ready(tailer),
      onEnd: tailer => this.#reader.finish(tailer, this.#out!),
      onForget: tailer => this.#reader.forget(tailer),
    })
    this.#reader = new Reader({
      ...shared,
      splitting: tailing.splitting,
      rotateWaitMs: options.rotate_wait,
      isStopped: () => this.#stopped,
      files: this.#openFiles,
      // Events may be delivered until the exit. The next start needs the last positions to count exactly what is lost.
      onUnfindable: tailers => {
        losses.warn(tailers)
        if (tailers.length > 0) checkpoints.changed()
      },
      onLost: tailer => {
        losses.stopped(tailer)
        checkpoints.changed()
      },
      // Event ids contain the `reading` of a file's content, so the `reading` must be saved for the next run.
      beforeSend: ({ origin }) => {
        if (!origin.wanted.areIdsUsed || (this.#openFiles.unsaved === 0 && !this.#saving)) return undefined
        this.#openFiles.unsaved = 0
        // The writer logs failures and retries.
        return checkpoints.flush().catch(() => {})
      },
      // A destination may have created the file just before it was found. This check still detects such a file, because
      // the destination registers it before the first write.
      open: tailer =>
        !context.isOwnOutput?.(tailer.key, tailer.birth) && this.#openFiles.open(tailer) && !this.#setsAside(tailer),
      seenAt: () => (this.#watches.areComplete ? clock.now() : this.#sweptAt),
      areHeld: () => this.#isHeld || this.#isBlocked || this.#remote.silent > 0,
    })
    const hint: OnHint = (folder, type, name) => this.#hint(folder, type, name)
    this.#watches = new Watches(log, clock, hint, folder => this.#remote.has(folder))
    checkpoints.provide(() => this.#snapshot())
    if (this.#saved.compressedSince === undefined) checkpoints.changed()
    registerGauges(context, this.#openFiles, tailing.grown, this.#descriptors, shared)
    if (this.#saved.unreadable === 0) return
    metrics.failed('checkpoint')
    log.error(
      { code: 'SLUICE_CHECKPOINT_UNREADABLE', entries: this.#saved.unreadable },
      'saved positions are invalid; their files are read again from the beginning',
    )
  }

  /** Logs this once, and not again when files come and go, because the folder may well be empty. */
  #warnOfNothing(): void {
    const { include, exclude, follow } = this.#options
    const text = 'did not find any file to read'
    const fields = { include, ...(exclude.length > 0 && { exclude }) }
    this.#context.log.warn(fields, follow ? `${text}; files created later are read from their beginning` : text)
  }

  #snapshot(): SavedDocument {
    // A file may leave the tailers while the entries are made.
    const [saved, tailers] = [[...this.#saved.entries()], [...this.#openFiles.tailers]]
    const files = {
      *[Symbol.iterator]() {
        yield* saved
        for (const tailer of tailers) yield tailer.entry()
      },
      toJSON: () => [...files],
    }
    const { lookedAt: looked, displaced } = this.#openFiles
    const compressed = this.#compressedSince
    return { version: 1, saved: this.#context.clock.wall(), looked, displaced, compressed, files }
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    const { follow } = this.#options
    this.#out = out
    const ended = new AbortController()
    const end = () => {
      this.#stopped ||= signal.aborted
      ended.abort()
      this.#waker.wake()
    }
    signal.addEventListener('abort', end)
    try {
      if (signal.aborted) end()
      const runsAgain = this.#swept
      await this.#sweep()
      if (runsAgain) this.#reader.fellBehind()
      this.#saveNew()
      const both = [this.#reader.run(out, ended.signal, follow), this.#keepSweeping(ended.signal)]
      const results = await Promise.allSettled(both.map(part => part.finally(end)))
      for (const result of results) if (result.status === 'rejected') throw result.reason
      this.#stopped = true
    } finally {
      signal.removeEventListener('abort', end)
      if (this.#stopped) await this.stop()
    }
  }

  /** Closes all files. Batches in flight may still be settled, and their positions are still saved. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#watches.close()
    await new TimeSlices(this.#context.clock).each([...this.#openFiles.tailers], tailer => {
      if (!this.#remote.has(tailer.path)) tailer.lookOnceMore()
      this.#descriptors.close(tailer)
      // An unfinished line may still be in memory, even if its file is no longer open.
      tailer.park()
    })
    this.#openFiles.close()
    this.#descriptors.end()
    this.#context.checkpoints.changed()
  }

  async #keepSweeping(signal: AbortSignal): Promise<void> {
    const { clock } = this.#context
    while (!signal.aborted) {
      const heldAt = this.#isHeld && !this.#isBlocked ? this.#heldAt : this.#sweepAt
      const at = Math.min(this.#urgent ? this.#urgentAt : heldAt, this.#sweepAt)
      const saveAt = this.#openFiles.unsaved > 0 && !this.#saving ? this.#saveAt : at
      if (clock.now() < at) await this.#waker.wait(Math.max(1, Math.min(at, saveAt) - clock.now()))
      else await this.#sweep()
      const examined = await this.#examineRenamed()
      const isHeld = this.#isHeld && !this.#isBlocked
      if (isHeld && examined > 0) this.#urgent = true
      if (!isHeld && !this.#options.follow) this.#reader.look()
      this.#saveNew()
    }
  }

  /** Looks at the paths that a watch reported. Many may be reported at once. Returns how many were examined. */
  async #examineRenamed(): Promise<number> {
    let examined = 0
    const slices = this.#slices
    const [renamed, denied] = [this.#renamed, this.#denied]
    this.#renamed = new Map()
    this.#denied = new Set()
    // If the permissions of a file were corrected, it is read at once.
    await slices.each(denied, path => {
      if (orUnknown(() => withFile(path, () => true))) renamed.set(path, this.#openFiles.lookedAt)
    })
    await slices.each(renamed, ([path, since]) => {
      if (this.#openFiles.noteName(path, since)) this.#urgent = true
    })
    for (const path of renamed.keys()) {
      if (slices.due) await slices.pause()
      const match = this.#discovery.match(path)
      const isFolder =
        match === 'whole' && (await this.#remote.unlessSilent(() => this.#openFiles.examine(path, 'link')))
      if (match === 'whole') examined++
      // The path may be a new folder that contains files and is not watched yet.
      if (isFolder || match === 'prefix') this.#urgent = true
    }
    return examined
  }

  /** Saves new files now. The next start then finds them even if they are renamed and the process is killed. */
  #saveNew(): void {
    const { clock, checkpoints } = this.#context
    const started = clock.now()
    if (this.#openFiles.unsaved === 0 || this.#saving || started < this.#saveAt) return
    this.#saving = true
    this.#openFiles.unsaved = 0
    const done = () => {
      this.#saving = false
      this.#saveAt = clock.now() + SAVE_SHARE * (clock.now() - started)
      this.#waker.wake()
    }
    // The writer logs failures and retries.
    checkpoints.flush().then(done, done)
  }

  #setsAside(tailer: Tailer): boolean {
    const isSetAside = this.#openFiles.setAside(tailer)
    if (isSetAside) {
      this.#urgent = true
      this.#waker.wake()
    }
    return isSetAside
  }

  /** Whether another sweep may soon find more to read. */
  get #isHeld(): boolean {
    return this.#openFiles.holds || (!this.#options.follow && this.#openFiles.isSearching)
  }

  async #sweep(): Promise<void> {
    const { clock } = this.#context
    const startedAt = clock.now()
    const slices = new TimeSlices(clock)
    this.#urgent = false
    let isWhole = false
    // If a file system falls silent, the sweep ends, and the next one leaves out this file system.
    const unwatched = await this.#remote.unlessSilent(async () => {
      const found = await this.#discovery.walk(slices, this.#watches.areComplete)
      const mayTouchAll = await this.#mayTouchAll(slices, found.links)
      this.#remote.forgetOthers()
      isWhole = !found.isBlocked && mayTouchAll
      // A silent file system must not stop the others. Only the first sweep waits for all.
      return isWhole || this.#swept ? await this.#lookAt(found, slices, isWhole) : undefined
    })
    this.#isBlocked = !isWhole || unwatched === undefined
    if (!this.#isBlocked) this.#sweptAt = startedAt
    // The wait for a file system is not part of the working time.
    if (this.#isBlocked) slices.restart()
    slices.stop()
    const now = clock.now()
    // If only one of two sweeps took long, the reason may be other load on the machine.
    const busyMs = Math.min(slices.busyMs, this.#busyMs)
    this.#busyMs = slices.busyMs
    // An urgent sweep finds files that were created in a folder after the folder was listed and before it was watched.
    if (unwatched) this.#urgent = true
    const urgentMs = Math.max(URGENT_MS, URGENT_SHARE * busyMs)
    this.#urgentAt = now + (unwatched ? URGENT_SHARE * busyMs : urgentMs)
    // A possible copy may wait for as long as it is written.
    const mayBeRarer = this.#isHeld && !this.#urgent && this.#options.follow && !this.#openFiles.holdsFiles
    this.#heldMs = Math.max(urgentMs, mayBeRarer ? Math.min(this.#options.scan_interval, 2 * this.#heldMs) : 0)
    this.#heldAt = now + this.#heldMs
    this.#sweepAt = now + Math.max(this.#options.scan_interval, SWEEP_SHARE * busyMs)
    this.#scans.value++
  }

  /** Returns true if folders are newly watched, because files may have been created in them before the watch. */
  async #lookAt(found: FoundFile, slices: TimeSlices, isWhole: boolean): Promise<boolean> {
    const { folders, isSame } = found
    await this.#openFiles.sweep(found, slices, isWhole)
    if (!this.#swept && this.#openFiles.size === 0 && this.#problems.unread === 0) this.#warnOfNothing()
    this.#swept = true
    if (!this.#options.follow || this.#stopped) return false
    const targets = [...this.#openFiles.targetFolders]
    if (isSame && targets.length === 0 && this.#watches.areComplete) return false
    for (const folder of targets) folders.add(folder)
    return await this.#watches.sync(folders, slices)
  }

  /** Whether all file systems respond: those of the files that were found, and those of the files being read. */
  async #mayTouchAll(slices: TimeSlices, links: readonly string[]): Promise<boolean> {
    const paths = new Set<string>()
    const add = (path: string) => this.#remote.has(path) && paths.add(path)
    await slices.each(links, add)
    await slices.each(this.#openFiles.tailers, ({ path }) => add(path))
    let all = true
    for (const path of paths) if (!(await slices.without(() => this.#remote.answers(path)))) all = false
    return all
  }

  #hint(folder: string, type: 'change' | 'rename', name: string): void {
    const path = `${folder === '/' ? '' : folder}/${name}`
    const tailer = this.#openFiles.at(path)
    // While a destination is blocked, the file is not read, but the next sweep must see if the file was truncated.
    tailer?.checks.report()
    if (type === 'change') {
      if (tailer) this.#reader.hint(tailer)
      else if (this.#problems.isDenied(path)) {
        this.#denied.add(path)
        this.#waker.wake()
      }
      return
    }
    this.#discovery.checks.report()
    if (tailer) this.#reader.hint(tailer)
    // If a watched folder is removed, it is reported under its own name. A sweep must look for it at its old path.
    if (name === basename(folder)) this.#urgent = true
    if (!this.#renamed.has(path)) this.#renamed.set(path, this.#openFiles.lookedAt)
    this.#waker.wake()
  }
}
