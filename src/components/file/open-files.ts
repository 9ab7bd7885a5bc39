import type { BigIntStats } from 'node:fs'
import { basename } from 'node:path'
import type { SourceContext } from '../../core/component.js'
import { errorCode, lacksDescriptor } from '../../core/errors.js'
import { closeSync, fstatSync, orNone, statOrNone, statSync, unlessSilent } from '../../lib/files/disk/disk.js'
import { finalPath } from '../../lib/files/final-path.js'
import { Slices } from '../../lib/slices.js'
import { ByFolder } from './by-folder.js'
import { formatOfName } from './compression.js'
import { type Descriptors, TooManyOpen } from './descriptors.js'
import { type Found, mayMiss, type NameKind } from './discovery/discovery.js'
import { fingerprintAt, isOther, judge, keyOf, same, type Verdict } from './identity.js'
import { Lineage } from './lineage.js'
import { followMoved } from './moved.js'
import { openKnown, openWithinSync } from './opening.js'
import type { FileOptions } from './options.js'
import { isMangled, type PathProblems } from './path-problems.js'
import { beginningOf, positionOf, restOf, resumeOf, startOf, wasThere } from './positions.js'
import { Tailer, type TailerContext } from './reading/tailer.js'
import type { Listed } from './rotation/candidates.js'
import { Copy } from './rotation/copy.js'
import { CurrentNames } from './rotation/current-names.js'
import { DetachedFiles } from './rotation/detached-files.js'
import type { Losses } from './rotation/losses.js'
import { mayBecome } from './rotation/names.js'
import { type Compared, originalsOf } from './rotation/newcomers.js'
import { Search } from './rotation/search.js'
import { type Displaced, type Entry, isCopyAhead, type Saved } from './saved.js'
import { Sweeps } from './sweeps.js'

interface OpenFilesOptions {
  readonly context: SourceContext
  readonly options: FileOptions
  /** Wall clock in milliseconds. Compressed files from before this time are not read. */
  readonly compressedSince: number
  readonly saved: Saved
  readonly tailing: TailerContext
  readonly problems: PathProblems
  readonly descriptors: Descriptors
  readonly rotations: { value: number }
  readonly losses: Losses
  /** Whether changes in the folders of all files are reported. If so, sweeps need not check quiet files each time. */
  areWatched(): boolean
  onReady(tailer: Tailer): void
  /** Called when the file gets no more bytes. Its unfinished last line is then delivered. */
  onEnd(tailer: Tailer): void
  onForget(tailer: Tailer): void
}

/** How often a folder is listed at the stop to find files that are being renamed. */
const MOST_LOOKS = 4

/**
 * Tracks the files that are read, by inode and by name. Invariants: there is one tailer per inode, even if it has
 * several names. A file that was found once is read to its end under any name, and kept until all of it is settled.
 */
export class OpenFiles {
  /** Number of new files that no saved checkpoint contains. The source sets it to 0 when it saves the new files. */
  unsaved = 0
  /** Files that may have unread bytes. */
  readonly grown = new Set<Tailer>()
  /** By the file name in their events. */
  readonly lineages = new Map<string, Lineage<Tailer>>()
  readonly #options: OpenFilesOptions
  readonly #tailers = new Map<string, Tailer>()
  readonly #inFolders = new ByFolder<Tailer>()
  /** Files that are not read yet, because Sluice still searches for files that must be read before them. */
  readonly #held = new Set<Tailer>()
  readonly #names = new CurrentNames(this)
  readonly #search: Search
  readonly #detached: DetachedFiles
  readonly #sweeps: Sweeps
  #isWhole = true
  /** Paths that could not be examined or opened, and `lookedAt` before. Since then, other files may have had them. */
  readonly #unexamined = new Map<string, number>()

  constructor(options: OpenFilesOptions) {
    this.#options = options
    const { saved, context } = options
    this.#sweeps = new Sweeps(saved.lookedAt ?? context.clock.wall())
    const { remote, beginnings } = options.tailing
    this.#search = new Search({ ...options, remote, beginnings, files: this })
    this.#detached = new DetachedFiles({ ...options, files: this, search: this.#search })
  }

  /** The open files that the next start could not find, in the order in which they are read. */
  async unfindable(): Promise<Tailer[]> {
    const slices = new Slices(this.#options.context.clock)
    const { remote } = this.#options.tailing
    const locate = async (tailers: Iterable<Tailer>) =>
      (await this.#detached.locate(tailers, slices)).filter(({ path }) => !remote.isSilent(path))
    let found = await locate(this.#tailers.values())
    // A file that was renamed while its folder was listed still has a name.
    for (let looks = 1; looks < MOST_LOOKS && found.some(one => !one.unlinked); looks++) found = await locate(found)
    // A compressed file is not read as lines, even if it was empty when it was opened.
    const lost = new Set(found.filter(({ beginsCompressed }) => !beginsCompressed))
    return [...new Set([...lost].flatMap(one => [...one.earlier.filter(earlier => lost.has(earlier)), one]))]
  }

  get tailers(): Iterable<Tailer> {
    return this.#tailers.values()
  }

  /** Whether bytes were seen that are not delivered and not included in the saved entries. */
  get areUnsaved(): boolean {
    for (const { isUnsaved } of this.#tailers.values()) if (isUnsaved) return true
    return false
  }

  in(folder: string): Iterable<Tailer> {
    return this.#inFolders.in(folder)
  }

  /** The files whose events have this file name. */
  withName(name: string): readonly Tailer[] {
    return this.lineages.get(name)?.files ?? []
  }

  moved(tailer: Tailer, before: string): void {
    if (this.#inFolders.delete(before, tailer)) this.#inFolders.add(tailer.path, tailer)
  }

  get size(): number {
    return this.#tailers.size
  }

  /** Wall clock in milliseconds. All rotations before this time were observed. */
  get lookedAt(): number {
    return this.#sweeps.lookedAt
  }

  get displaced(): Displaced[] {
    const unexamined = Array.from(this.#unexamined, ([path, since]) => ({ path, since }))
    return [...this.#search.displacements, ...this.#names.vacant, ...unexamined]
  }

  /** All files that had this name before this time were seen under it. Wall clock in milliseconds. */
  lookedAtName(path: string): number {
    return this.#unexamined.get(path) ?? this.lookedAt
  }

  reads(tailer: Tailer): boolean {
    return this.#tailers.has(tailer.key)
  }

  /** The file last found under this name. */
  at(path: string): Tailer | undefined {
    return this.#names.at(path)
  }

  /** The file that has this name now. */
  named(path: string): Tailer | undefined {
    return this.#names.paths.get(path)
  }

  /** Whether a file with this name is or was read. */
  isName(path: string): boolean {
    return this.#names.paths.has(path) || this.#options.saved.has(path)
  }

  targetFolders = (): Iterable<string> => this.#names.targetFolders()

  /** Whether the closed file has grown. If it is no longer at its path, a sweep must look for it first. */
  hasGrown(tailer: Tailer): boolean {
    if (tailer.where.is === 'missing') return false
    const stat = statOrNone(tailer.path)
    if (stat && keyOf(stat) === tailer.key) return !isOther(stat, tailer.birth) && tailer.look(stat)
    tailer.fail('moved')
    return false
  }

  /** Opens the file if it is closed. Returns false if the file cannot be read now. */
  open(tailer: Tailer): boolean {
    const { descriptors, problems } = this.#options
    if (tailer.copy) {
      if (tailer.copy.isLost) tailer.fail('moved')
      return tailer.isOpen
    }
    try {
      if (!tailer.isOpen) {
        descriptors.makeRoom()
        const fd = openKnown(tailer.path, tailer)
        if (fd === undefined) {
          tailer.fail('moved')
          return false
        }
        tailer.open(fd)
      }
    } catch (error) {
      this.#notOpened(tailer.path, error)
      tailer.fail(errorCode(error) === 'ENOENT' ? 'moved' : error instanceof TooManyOpen ? 'full' : 'open')
      return false
    }
    descriptors.used(tailer)
    if (tailer.block === 'open' || tailer.block === 'full') {
      tailer.worked()
      problems.over(tailer.path)
    }
    return true
  }

  /** Records why a file cannot be opened. Throws if its file system does not respond. */
  #notOpened(path: string, error: unknown): void {
    const { descriptors, problems } = this.#options
    unlessSilent(error)
    if (lacksDescriptor(error)) descriptors.refused()
    if (errorCode(error) !== 'ENOENT') problems.failed(path, 'open', error)
  }

  /**
   * Examines the paths that a walk found, and the files found earlier whose paths this walk did not find. If not
   * `isWhole`, what is on a silent file system is left as it is.
   */
  async sweep(found: Pick<Found, 'files' | 'unlisted'>, slices: Slices, isWhole = true): Promise<void> {
    this.#isWhole = isWhole
    this.#search.unseen.beginSweep(path => mayMiss(found, path))
    await this.#sweeps.run(this.#options.context.clock.wall(), () => this.#lookAt(found.files, slices), isWhole)
  }

  /** Whether this sweep must not touch the path. */
  #isLeft(path: string): boolean {
    return !this.#isWhole && this.#options.tailing.remote.isSilent(path)
  }

  async #lookAt(files: ReadonlyMap<string, NameKind>, slices: Slices): Promise<void> {
    const { problems, saved, context, descriptors, onReady } = this.#options
    if (this.#sweeps.isFirst && saved.savedAt !== undefined) await followMoved(saved, context, slices)
    descriptors.beginSweep()
    for (const [path, kind] of files) {
      if (slices.due) await slices.pause()
      if (this.#isLeft(path)) this.#mayBeThere(path)
      else if (kind !== 'same' || !this.#glance(path)) this.examine(path, kind)
    }
    for (const path of this.#names.paths.keys()) {
      if (files.has(path)) continue
      // The walk may have left out a file system that answers now.
      if (!this.#isWhole && this.#options.tailing.remote.has(path)) this.#mayBeThere(path)
      else this.#names.vacate(path)
    }
    for (const path of this.#unexamined.keys()) if (!files.has(path)) this.#wasExamined(path)
    const now = context.clock.now()
    const thorough = now >= this.#sweeps.thoroughAt
    await this.#names.succeed(slices)
    const held = [...this.#held]
    const unseen = this.#unseen()
    if (descriptors.areUsedUp) {
      await this.#detached.locate(unseen, slices)
      descriptors.lookAgain()
    }
    const closed = await this.#detached.visit(unseen, slices)
    await this.#search.run(closed, thorough, slices)
    await this.#findOverwritten(slices)
    for (const tailer of held) if (!this.#search.delays.has(tailer) && this.#release(tailer)) onReady(tailer)
    // In the first sweep, nothing was read yet. So these files can still wait for files that were rotated unseen.
    if (this.#sweeps.isFirst) for (const tailer of this.#search.delays) this.#takeBack(tailer)
    problems.nextSweep()
    if (!thorough || !this.#search.isComplete) return
    this.#sweeps.wasThorough(now)
    saved.prune(context.clock.wall(), this.#search.isKept)
  }

  /** Finds open files that were truncated before their end was read. Skips files that this sweep found unchanged. */
  async #findOverwritten(slices: Slices): Promise<void> {
    const { lookedAt } = this
    for (const tailer of this.#tailers.values()) {
      if (tailer.wasSameIn(this.#sweeps.number) && tailer.at === tailer.size) {
        tailer.becomesSure(0, lookedAt)
        continue
      }
      if (this.#isLeft(tailer.path)) continue
      if (slices.due) await slices.pause()
      try {
        if (tailer.isOverwritten) this.truncated(tailer)
        else tailer.learnHead()
      } catch (error) {
        unlessSilent(error)
        // The next read fails, too, and its error is reported.
      }
    }
  }

  /** Prevents reading of the file until a sweep has searched for the files that must be read before it. */
  hold(tailer: Tailer): void {
    this.#held.add(tailer)
    tailer.hold()
  }

  /** Holds a file that may already be in the reader's queue. */
  #takeBack(tailer: Tailer): void {
    if (!tailer.isNew || tailer.reading || tailer.held) return
    this.#options.onForget(tailer)
    this.hold(tailer)
  }

  #release(tailer: Tailer): boolean {
    tailer.release()
    return this.#held.delete(tailer)
  }

  /** Whether files that were opened wait for a search. */
  get holdsFiles(): boolean {
    return this.#held.size > 0
  }

  /** Whether files wait for the next sweep. */
  get holds(): boolean {
    return this.holdsFiles || this.#search.newcomers.wait
  }

  /** Whether Sluice still searches for files that were rotated unseen, or whether files wait to be opened. */
  get isSearching(): boolean {
    return this.#search.isWaiting || this.#options.descriptors.areRefused
  }

  #unseen(): Tailer[] {
    const unseen: Tailer[] = []
    for (const tailer of this.#tailers.values()) {
      const { path, found } = tailer
      if (this.#isLeft(path)) continue
      // Even if the file is not read now, the search must know that it may be a copy.
      if (tailer.isUncompared && orNone(() => this.setAside(tailer))) continue
      if (this.#names.paths.get(path) !== tailer && this.#names.paths.get(found) === tailer) {
        tailer.rename(found)
        if (tailer.pending > 0 || tailer.parked) this.#options.onReady(tailer)
      }
      if (!tailer.wasSeenIn(this.#sweeps.number)) unseen.push(tailer)
    }
    return unseen
  }

  /** Quickly checks an open file in a folder whose names have not changed. */
  #glance(path: string): boolean {
    const { context, areWatched } = this.#options
    const tailer = this.#names.paths.get(path)
    if (!tailer?.isOpen || context.isOwnOutput?.(tailer.key, tailer.birth)) return false
    const { checks, grownAt } = tailer
    const isKnown = checks.suffice(grownAt) && areWatched()
    if (!isKnown) checks.check()
    this.#seen(tailer, path, !isKnown && tailer.glance())
    return true
  }

  #seen(tailer: Tailer, path: string, changed: boolean): void {
    tailer.wasFound(this.#sweeps.number, path, !changed)
    // If the file system was mounted again, only a new descriptor works.
    if (tailer.block === 'read' && !tailer.copy) this.#options.descriptors.close(tailer)
    if (changed || tailer.failed) this.#options.onReady(tailer)
  }

  /** Returns whether the path is a folder. `result`: what comparing the file with others showed. */
  examine(path: string, kind: NameKind = 'unknown', result?: Compared): boolean {
    let stat: BigIntStats | undefined
    try {
      stat = statSync(path, { bigint: true, throwIfNoEntry: false })
      if (!stat) {
        this.#names.vacate(path)
        if (isMangled(path)) this.#options.problems.mangled(path, 'open')
      } else if (stat.isFile()) this.#examineFile(path, stat, kind, result)
      else if (!stat.isDirectory() || kind === 'unknown') this.#options.problems.skipped(path, stat)
      this.#wasExamined(path)
    } catch (error) {
      this.#notOpened(path, error)
      // Another file had the name, and was renamed before it was opened.
      if (errorCode(error) === 'ENOENT') this.#names.vacate(path)
      else if (!stat) {
        this.#mayBeThere(path)
        if (this.isName(path) || this.#names.knows(path)) this.#noteUnexamined(path)
        // The files after it must not wait.
        this.#names.paths.get(path)?.wasLookedFor()
      } else if (stat.isFile() && !this.#tailers.has(keyOf(stat))) {
        this.#names.vacate(path)
        const fromEnd = this.#isFromEnd && wasThere(stat, path, this.#options.saved)
        this.#search.noteUnopened(path, stat, fromEnd)
        this.#noteUnexamined(path)
      }
    }
    return stat?.isDirectory() === true
  }

  #noteUnexamined(path: string): void {
    this.#unexamined.set(path, this.lookedAtName(path))
  }

  /** If the path could not be examined before, files that had the name meanwhile are searched. */
  #wasExamined(path: string): void {
    const since = this.#unexamined.get(path)
    if (since === undefined) return
    this.#unexamined.delete(path)
    this.displace(path, since)
  }

  /** A path that is not examined may still lead to its file. */
  #mayBeThere(path: string): void {
    this.#names.paths.get(path)?.mayBeThere(this.#sweeps.number)
  }

  #examineFile(path: string, stat: BigIntStats, kind: NameKind, result: Compared | undefined): void {
    const key = keyOf(stat)
    if (this.#options.context.isOwnOutput?.(key, stat.birthtimeNs)) {
      this.#options.problems.ownOutput(path)
      const tailer = this.#tailers.get(key)
      if (tailer) this.forget(tailer)
      return
    }
    let tailer = this.#tailerOf(path, stat)
    const isNew = !tailer && !result && !this.#options.saved.known(stat)
    if (isNew && this.#search.newcomers.add(path, kind, stat)) {
      this.#names.vacate(path)
      return
    }
    const changed = tailer?.look(stat)
    // The name may refer to another file by now.
    tailer ??= this.#adopt(path, kind, result)
    if (!tailer) return
    this.#names.set(path, tailer)
    if (this.#search.unseen.delays(path)) this.#takeBack(tailer)
    this.#seen(tailer, path, changed ?? true)
  }

  isRead(path: string, stat: BigIntStats): boolean {
    return this.#tailers.get(keyOf(stat))?.mayBe(path, stat) === true
  }

  /** Whether the file has a saved position. If it is shorter, its inode may have been reused. */
  isSaved(stat: BigIntStats, path: string): boolean {
    const entry = this.#options.saved.known(stat)
    return entry !== undefined && mayBecome(entry.path, path) && Number(stat.size) >= entry.offset
  }

  isOld({ birthtimeNs, mtimeNs }: BigIntStats): boolean {
    return Number(birthtimeNs || mtimeNs) / 1e6 < this.#options.compressedSince
  }

  /**
   * The tailer of the file. If the inode was reused, gives the tailer of the earlier file another key.
   */
  #tailerOf(path: string, stat: BigIntStats): Tailer | undefined {
    const tailer = this.#tailers.get(keyOf(stat))
    if (!tailer || tailer.mayBe(path, stat)) return tailer
    this.#options.context.log.info({ file: tailer.path }, 'file is gone and its inode was reused')
    this.#rekey(tailer, () => tailer.leave())
    for (const at of [tailer.path, tailer.found]) if (this.#names.paths.get(at) === tailer) this.#names.vacate(at)
    return undefined
  }

  /** Called when a new file took the name of `former`. The rest of `former` must be read before the new file. */
  rotated(path: string, tailer: Tailer, former: Tailer): void {
    this.#options.rotations.value++
    this.#options.context.log.info({ file: path }, 'file was rotated')
    const { head } = former
    const { fd } = tailer
    const first = fd === undefined || head.bytes === 0 ? undefined : orNone(() => fingerprintAt(fd, 0, head.bytes))
    if (first && same(first, head) && former.unlinked)
      this.#options.context.log.warn(
        { file: path, read_bytes: former.at },
        'file was replaced (editors do this) by a new file that begins with the same bytes; reading the new file from its beginning',
      )
    // Other files may have had the name in between. The next sweep finds them, and the new name of a closed `former`.
    this.#takeBack(tailer)
    // The former file may have more to read.
    if (former.isOpen && !former.held) this.#options.onReady(former)
  }

  /** Starts to read the file at `path`, which has no tailer. */
  #adopt(path: string, kind: NameKind, result: Compared | undefined): Tailer | undefined {
    const { context, options, tailing, descriptors, problems, saved } = this.#options
    descriptors.makeRoom()
    const fd = openWithinSync(context.reach, path)
    let taken = false
    try {
      const stat = fstatSync(fd, { bigint: true })
      const known = this.#tailerOf(path, stat) ?? this.#mountedAgain(fd, stat, path)
      known?.look(stat)
      if (known || !stat.isFile()) return known
      const remembered = saved.find(stat.dev, stat.ino, path)
      const verdict =
        remembered && mayBecome(remembered.path, path)
          ? judge(fd, stat, { ...remembered, birth: BigInt(remembered.birth) })
          : 'replaced'
      const entry = verdict === 'same' ? remembered : undefined
      const target = kind === 'link' || kind === 'unknown' ? finalPath(path) : path
      const start = entry ? resumeOf(fd, entry) : startOf(fd, stat, path, this.#isFromEnd, saved)
      // Nothing after this line fails. So a saved position is removed only if its file gets a tailer.
      if (remembered) this.#resumed(path, remembered, verdict)
      // The first bytes of a file that was empty, or could not be opened, have not been compared yet.
      const isOwn = result === 'new'
      const isCompared = isOwn || (entry !== undefined && (entry.head.bytes > 0 || entry.offset > 0))
      // If it could not be read when it was compared, it may turn out to be compressed.
      const compares = !isCompared && this.#compares
      if (result === 'unread' && this.#search.newcomers.add(path, kind, stat)) return undefined
      if ((isOwn || !isCompared) && this.#search.newcomers.addByContent(path, kind, fd, compares)) return undefined
      // The events of a renamed file keep the name that the file had when they were written.
      const tailer = new Tailer(
        path,
        stat,
        context.origin(options.decode, entry?.file ?? entry?.path ?? path),
        start,
        tailing,
      )
      // The file had these names before. Its first name may have been vacant since.
      const { path: last = path, file: first = path } = entry ?? {}
      for (const name of [last, first]) {
        if (name === path || (name !== last && this.isName(name))) continue
        this.#names.setFormer(name, tailer)
        this.displace(name)
      }
      tailer.claim(entry?.claimed)
      tailer.setUncompared(tailer.isNew && stat.size === 0n)
      tailer.open(fd)
      tailer.look(stat)
      if (entry || this.#sweeps.isAfter(stat)) tailer.fellBehind()
      taken = true
      this.#add(tailer, entry === undefined)
      descriptors.used(tailer)
      this.#names.setTarget(path, target, tailer)
      problems.over(path)
      if (!entry) this.unsaved++
      context.checkpoints.changed()
      return tailer
    } finally {
      if (!taken) closeSync(fd)
    }
  }

  /**
   * The tailer of the open file, whose path it last had, if only the device number has changed: the file system was
   * mounted again.
   */
  #mountedAgain(fd: number, stat: BigIntStats, path: string): Tailer | undefined {
    const tailer = this.#names.last(path)
    if (!tailer || this.#tailers.get(tailer.key) !== tailer) return undefined
    if (tailer.copy || tailer.hasPortion || tailer.head.bytes === 0) return undefined
    const { birth, at: offset, head, tail } = tailer
    const [, ino, gone] = tailer.key.split(':')
    if (gone !== undefined || ino !== String(stat.ino)) return undefined
    if (judge(fd, stat, { birth, offset, head, tail }) !== 'same') return undefined
    this.#options.descriptors.close(tailer)
    return this.readOn(tailer, { name: basename(path), path, stat }) ? tailer : undefined
  }

  get #isFromEnd(): boolean {
    return this.#options.options.read_from === 'end' && this.#sweeps.isFirst
  }

  /** Whether new files may be copies. True if files are followed, except in the first sweep of a first run. */
  get #compares(): boolean {
    const { options, saved } = this.#options
    return options.follow && !(this.#sweeps.isFirst && saved.savedAt === undefined)
  }

  /**
   * If the open file was empty when it was found, and its first bytes now show that it may be a copy, releases the
   * file. The next sweep decides whether it is a copy.
   */
  setAside(tailer: Tailer): boolean {
    const { path, fd } = tailer
    if (!tailer.isUncompared || fd === undefined || fstatSync(fd).size === 0) return false
    const isAside = this.#search.newcomers.addByContent(path, 'unknown', fd, this.#compares)
    tailer.setUncompared(false)
    if (!isAside) return false
    this.forget(tailer)
    return true
  }

  /**
   * Starts to read the rest of a file that has no tailer. `place`: where the rest was found. Returns undefined if the
   * rest cannot be read.
   */
  adoptRest(entry: Entry, place: Listed | Copy): Tailer | undefined {
    const { context, options, tailing, saved } = this.#options
    const name = entry.file ?? entry.path
    const stat = { dev: BigInt(entry.dev), ino: BigInt(entry.ino), birthtimeNs: BigInt(entry.birth) }
    const start = place instanceof Copy ? positionOf(entry) : restOf(place, entry, context.reach)
    if (!start) return undefined
    const tailer = new Tailer(entry.path, stat, context.origin(options.decode, name), start, tailing)
    tailer.setOwner(entry.uid)
    if (!this.#moveTo(tailer, place)) return undefined
    // Another file may have the inode, or the content was replaced. A copy was compared before.
    const isIt = !(place instanceof Copy) && keyOf(place.stat) === `${entry.dev}:${entry.ino}`
    if (isIt && !this.#isAsSaved(tailer, entry, place)) return undefined
    saved.remove(entry)
    if (place instanceof Copy) tailer.sees(entry.size ?? 0)
    else {
      // The file at this place may contain other data that begins with the same bytes.
      this.displace(name, this.#names.vacantSince(name))
      tailer.fellBehind()
      // The entry's file was empty, so this may be another file. Or it could not be opened, so it may be a copy.
      const mayBeCopy = entry.offset === 0 && (place.path === name || formatOfName(place.path) !== undefined)
      tailer.setUncompared(entry.head.bytes === 0 && mayBeCopy)
    }
    this.#add(tailer, false)
    this.#names.precede(name, tailer)
    context.checkpoints.changed()
    return tailer
  }

  /** If the open file has other content than the entry's file had, or cannot be read, closes it and returns false. */
  #isAsSaved(tailer: Tailer, entry: Entry, { path, stat }: Listed): boolean {
    let verdict: Verdict | undefined
    try {
      verdict = judge(tailer.fd!, stat, { ...entry, birth: BigInt(entry.birth) })
      if (verdict === 'same') return true
    } catch (error) {
      unlessSilent(error)
      this.#options.problems.failed(path, 'read', error)
    } finally {
      if (verdict !== 'same') this.#options.descriptors.close(tailer)
    }
    if (verdict) {
      this.#resumed(path, entry, verdict)
      // What the file holds now has not been read.
      this.displace(entry.file ?? entry.path, Number(stat.birthtimeNs || stat.mtimeNs) / 1e6)
    }
    return false
  }

  /** `isNewest`: the file just took its name. */
  #add(tailer: Tailer, isNewest: boolean): void {
    const { saved } = this.#options
    const former = saved.get(tailer.key)
    // The inode of `former` was reused. If two saved positions had the same inode, the next start would find only one.
    if (former) saved.replace(former, { ...former, gone: true })
    this.#tailers.set(tailer.key, tailer)
    this.#inFolders.add(tailer.path, tailer)
    this.#options.tailing.beginnings.add(tailer, tailer.head, tailer.trail.marks)
    const name = tailer.origin.path!
    const lineage = this.lineages.get(name) ?? new Lineage<Tailer>()
    this.lineages.set(name, lineage)
    tailer.join(lineage)
    if (isNewest) lineage.append(tailer)
    else lineage.insert(tailer, this.#names.paths.get(name))
  }

  /**
   * Records that the name refers to another file than before. From then on, a search looks for files that had the
   * name after `since` (wall clock in milliseconds).
   */
  displace(path: string, since = this.lookedAtName(path)): void {
    // The first sweep of a first run does not search for earlier files.
    if (!this.#sweeps.isFirst || this.#options.saved.savedAt !== undefined) this.#search.unseen.displaced(path, since)
  }

  /**
   * Called for a name that appeared after `lookedAt`, wall clock in milliseconds. If rotation creates such names, a file
   * may have come and gone between two sweeps.
   */
  noteName(path: string, lookedAt: number): boolean {
    const known = originalsOf(path).filter(original => this.#names.knows(original))
    for (const original of known) this.displace(original, Math.min(lookedAt, this.lookedAtName(original)))
    return known.length > 0
  }

  /**
   * Called when the open file no longer contains what was read from it. The tailer `former` looks for a copy of the old
   * content, and a new tailer reads the current content from the beginning.
   */
  truncated(former: Tailer): void {
    const { context, options, tailing, descriptors, onForget } = this.#options
    const { fd } = former
    // A portion of the old content is not lost, because it is taken before the next read finds the truncation.
    if (fd === undefined || former.hasPortion) return
    const stat = fstatSync(fd, { bigint: true })
    const start = beginningOf(fd)
    onForget(former)
    this.#rekey(former, () => former.truncated())
    descriptors.close(former)
    const tailer = new Tailer(former.path, stat, context.origin(options.decode, former.origin.path), start, tailing)
    tailer.mayBeThere(this.#sweeps.number)
    tailer.setUncompared(true)
    tailer.open(fd)
    tailer.setOwner(former.uid)
    tailer.sees(Number(stat.size))
    this.#add(tailer, true)
    descriptors.used(tailer)
    this.#names.replace(former, tailer)
    this.hold(tailer)
    this.displace(former.origin.path!, former.sureUntil)
    this.unsaved++
    tailing.onTruncated(former.origin.path!, former.at, former.unread)
  }

  /** Continues to read a closed, missing file in its copy at `place`. Returns false if the copy cannot be read. */
  readOn(tailer: Tailer, place: Listed | Copy): boolean {
    const { key } = tailer
    if (!this.#moveTo(tailer, place)) return false
    // Comparing showed that it is a copy of this file.
    tailer.setUncompared(false)
    this.#tailers.delete(key)
    this.#tailers.set(tailer.key, tailer)
    this.unsaved++
    return true
  }

  /** Forgets a copy's position if it is ahead of the position of `file`. The copy must be searched again. */
  releaseCopy(file: Tailer): void {
    const { known } = file
    this.#options.saved.releaseCopy(known)
    const copy = known.claimed === undefined ? undefined : this.#tailers.get(known.claimed)
    if (copy && copy !== file && isCopyAhead(copy.entry(), known)) this.forget(copy)
  }

  #moveTo(tailer: Tailer, place: Listed | Copy): boolean {
    const { descriptors, problems, context } = this.#options
    if (place instanceof Copy) {
      tailer.readOn(place)
      return true
    }
    const { path, stat } = place
    try {
      descriptors.makeRoom()
      // An earlier file may have had the same inode.
      const known = this.#tailerOf(path, stat)
      if (known && known !== tailer) return false
      const fd = openKnown(path, { key: keyOf(stat), birth: stat.birthtimeNs }, context.reach)
      if (fd === undefined) return false
      try {
        tailer.moveTo(path, stat, fd)
      } finally {
        if (tailer.fd !== fd) closeSync(fd)
      }
    } catch (error) {
      this.#notOpened(path, error)
      return false
    }
    descriptors.used(tailer)
    problems.over(path)
    return true
  }

  #rekey(tailer: Tailer, change: () => void): void {
    this.#tailers.delete(tailer.key)
    change()
    this.#tailers.set(tailer.key, tailer)
  }

  /** Called when the file at `path` has the entry's inode. */
  #resumed(path: string, entry: Entry, verdict: Verdict): void {
    const { saved, tailing, context } = this.#options
    saved.remove(entry)
    // The file at this place may contain other data that begins with the same bytes.
    this.displace(entry.file ?? entry.path)
    if (verdict === 'same') return
    // The old content may be in a copy.
    saved.put({ ...entry, ...(verdict === 'truncated' && { path, file: entry.file ?? entry.path }), gone: true })
    const { offset, size = 0 } = entry
    if (verdict === 'truncated') tailing.onTruncated(path, offset, Math.max(0, size - offset))
    else context.log.info({ file: path }, 'file is gone and its inode was reused')
  }

  /** Call at the stop. Frees what a search that is not complete keeps open. */
  close(): void {
    this.#search.close()
  }

  /** Releases a file that was read and settled completely, if the file has been quiet for long enough. */
  retire(tailer: Tailer): void {
    this.#detached.retire(tailer)
  }

  forget(tailer: Tailer): void {
    const { descriptors, context, tailing, onForget } = this.#options
    onForget(tailer)
    tailing.beginnings.delete(tailer)
    this.grown.delete(tailer)
    this.#inFolders.delete(tailer.path, tailer)
    this.#release(tailer)
    descriptors.close(tailer)
    tailer.park()
    this.#tailers.delete(tailer.key)
    tailer.lineage?.remove(tailer)
    if (tailer.lineage?.isEmpty) this.lineages.delete(tailer.origin.path!)
    this.#names.forget(tailer)
    context.checkpoints.changed()
  }
}
