import type { BigIntStats } from 'node:fs'
import { basename } from 'node:path'
import type { SourceContext } from '../../core/component.js'
import { errorCode, lacksDescriptor } from '../../core/errors.js'
import { closeSync, fstatSync, statOrNone, unlessSilent } from '../../lib/files/disk/disk.js'
import { finalPath } from '../../lib/files/final-path.js'
import { formatOfName } from './compression.js'
import { type Descriptors, TooManyOpen } from './descriptors.js'
import type { NameKind } from './discovery/discovery.js'
import { type Identity, isBlind, isGoneKey, isOther, judge, keyOf, type Verdict } from './identity.js'
import { Registry } from './known/registry.js'
import { blocks } from './known/state.js'
import { openKnown, openWithinSync } from './opening.js'
import type { FileOptions } from './options.js'
import type { PathProblems } from './path-problems.js'
import { beginningOf, type Position, positionOf, restOf, resumeOf, startOf } from './positions.js'
import { Tailer, type TailerContext } from './reading/tailer.js'
import { Copy } from './rotation/copy.js'
import type { Losses } from './rotation/losses.js'
import { mayBeAt } from './rotation/names.js'
import type { Compared, Newcomers } from './rotation/newcomers.js'
import type { Listed } from './rotation/owners.js'
import { type Entry, isCopyAhead, type Saved } from './saved.js'

export interface OpenerOptions {
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

/** Opens files, begins to read them, and continues files elsewhere. */
export abstract class Opener extends Registry {
  /** Number of new files that no saved checkpoint contains. The source sets it to 0 when it saves the new files. */
  unsaved = 0
  protected readonly options: OpenerOptions
  /** The number of sweeps, and whether this is the first one. A sweep that fails is repeated. */
  protected sweeps = 0
  protected isFirst = true
  /** When the first sweep began, wall clock in milliseconds. */
  protected startedAt = Number.POSITIVE_INFINITY
  protected abstract readonly search: { readonly newcomers: Newcomers }

  constructor(options: OpenerOptions) {
    super()
    this.options = options
  }

  /** Opens the file if it is closed. Returns false if the file cannot be read now. */
  open(tailer: Tailer): boolean {
    const { descriptors, problems } = this.options
    if (tailer.copy) {
      if (tailer.copy.isLost) tailer.becomes(blocks.moved)
      return tailer.isOpen
    }
    try {
      if (!tailer.isOpen) {
        descriptors.makeRoom()
        const fd = openKnown(tailer.path, tailer)
        if (fd === undefined) {
          tailer.becomes(blocks.moved)
          return false
        }
        tailer.open(fd)
      }
    } catch (error) {
      this.notOpened(tailer.path, error)
      tailer.becomes(blocks[errorCode(error) === 'ENOENT' ? 'moved' : error instanceof TooManyOpen ? 'full' : 'open'])
      return false
    }
    descriptors.used(tailer)
    if (tailer.block === 'open' || tailer.block === 'full') {
      tailer.becomes(blocks.worked)
      problems.over(tailer.path)
    }
    return true
  }

  /** Records why a file cannot be opened. Throws if its file system does not respond. */
  protected notOpened(path: string, error: unknown): void {
    const { descriptors, problems } = this.options
    unlessSilent(error)
    if (lacksDescriptor(error)) descriptors.refused()
    if (errorCode(error) !== 'ENOENT') problems.failed(path, 'open', error)
  }

  /** Whether the closed file has grown. If it is no longer at its path, a sweep must look for it first. */
  hasGrown(tailer: Tailer): boolean {
    if (tailer.where.is === 'missing') return false
    const stat = statOrNone(tailer.path)
    if (stat && keyOf(stat) === tailer.key) return !isOther(stat, tailer.birth) && tailer.look(stat)
    tailer.becomes(blocks.moved)
    return false
  }

  isRead(path: string, stat: BigIntStats): boolean {
    return this.byKey(keyOf(stat))?.mayBe(path, stat) === true
  }

  /** Whether the file has a saved position. If it is shorter, its inode may have been reused. */
  isSaved(stat: BigIntStats, path: string): boolean {
    const entry = this.options.saved.known(stat)
    return entry !== undefined && mayBeAt(path, entry, isBlind(entry, stat)) && Number(stat.size) >= entry.offset
  }

  isOld({ birthtimeNs, mtimeNs }: BigIntStats): boolean {
    return Number(birthtimeNs || mtimeNs) / 1e6 < this.options.compressedSince
  }

  /**
   * The tailer of the file. If the inode was reused, gives the tailer of the earlier file another key.
   */
  protected tailerOf(path: string, stat: BigIntStats): Tailer | undefined {
    const tailer = this.byKey(keyOf(stat))
    if (!tailer || tailer.mayBe(path, stat)) return tailer
    this.options.context.log.info({ file: tailer.path }, 'file is gone and its inode was reused')
    const { key } = tailer
    tailer.leave()
    this.rekeyed(tailer, key)
    for (const at of [tailer.path, tailer.found]) if (this.named(at) === tailer) this.vacate(at)
    return undefined
  }

  #create(path: string, stat: Identity, name: string, start: Position): Tailer {
    const { context, options, tailing } = this.options
    return new Tailer(path, stat, context.origin(options.decode, name), start, tailing)
  }

  /** Starts to read the file at `path`, which has no tailer. `result`: what comparing the file with others showed. */
  protected adopt(path: string, kind: NameKind, result: Compared | undefined): Tailer | undefined {
    const { context, descriptors, problems, saved } = this.options
    const { newcomers } = this.search
    descriptors.makeRoom()
    const fd = openWithinSync(context.reach, path)
    let taken = false
    try {
      const stat = fstatSync(fd, { bigint: true })
      const known = this.tailerOf(path, stat) ?? this.#mountedAgain(fd, stat, path)
      known?.look(stat)
      if (known || !stat.isFile()) return known
      const remembered = saved.find(stat.dev, stat.ino, path)
      const verdict =
        remembered && mayBeAt(path, remembered, isBlind(remembered, stat))
          ? judge(fd, stat, { ...remembered, birth: BigInt(remembered.birth) })
          : 'replaced'
      const entry = verdict === 'same' ? remembered : undefined
      const target = kind === 'link' || kind === 'unknown' ? finalPath(path) : path
      const start = entry ? resumeOf(fd, entry) : startOf(fd, stat, path, this.isFromEnd, saved)
      // Nothing after this line fails. So a saved position is removed only if its file gets a tailer.
      if (remembered) this.#resumed(path, remembered, verdict)
      // The first bytes of a file that was empty, or could not be opened, have not been compared yet.
      const isOwn = result === 'new'
      const isCompared = isOwn || (entry !== undefined && (entry.head.bytes > 0 || entry.offset > 0))
      // If it could not be read when it was compared, it may turn out to be compressed.
      const compares = !isCompared && this.#compares
      if (result === 'unread' && newcomers.add(path, kind, stat)) return undefined
      if ((isOwn || !isCompared) && newcomers.addByContent(path, kind, fd, compares)) return undefined
      // The events of a renamed file keep the name that the file had when they were written.
      const tailer = this.#create(path, stat, entry?.file ?? entry?.path ?? path, start)
      // The file had these names before. Its first name may have been vacant since.
      const { path: last = path, file: first = path } = entry ?? {}
      for (const name of [last, first]) {
        if (name === path || (name !== last && this.isName(name))) continue
        this.setFormer(name, tailer)
        this.displace(name)
      }
      tailer.claim(entry?.claimed)
      tailer.setUncompared(tailer.isNew && stat.size === 0n)
      tailer.open(fd)
      tailer.look(stat)
      // What was written before the first sweep is backlog.
      if (entry || this.isFirst || Number(stat.mtimeMs) < this.startedAt) tailer.fellBehind()
      taken = true
      this.add(tailer, entry === undefined)
      descriptors.used(tailer)
      this.setTarget(path, target, tailer)
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
    const tailer = this.last(path)
    if (!tailer || !this.reads(tailer) || tailer.copy || tailer.hasPortion || tailer.head.bytes === 0) return undefined
    const { birth, at: offset, head, tail } = tailer
    if (isGoneKey(tailer.key) || tailer.key.split(':')[1] !== String(stat.ino)) return undefined
    if (judge(fd, stat, { birth, offset, head, tail }) !== 'same') return undefined
    this.options.descriptors.close(tailer)
    return this.readOn(tailer, { key: keyOf(stat), name: basename(path), path, stat }) ? tailer : undefined
  }

  protected get isFromEnd(): boolean {
    return this.options.options.read_from === 'end' && this.isFirst
  }

  /** Whether new files may be copies. True if files are followed, except in the first sweep of a first run. */
  get #compares(): boolean {
    return this.options.options.follow && !this.isFirstEver
  }

  protected get isFirstEver(): boolean {
    return this.isFirst && this.options.saved.savedAt === undefined
  }

  isName(path: string): boolean {
    return this.named(path) !== undefined || this.options.saved.has(path)
  }

  /**
   * If the open file was empty when it was found, and its first bytes now show that it may be a copy, releases the
   * file. The next sweep decides whether it is a copy.
   */
  setAside(tailer: Tailer): boolean {
    const { path, fd } = tailer
    if (!tailer.isUncompared || fd === undefined || fstatSync(fd).size === 0) return false
    const isAside = this.search.newcomers.addByContent(path, 'unknown', fd, this.#compares)
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
    const { context, saved } = this.options
    const name = entry.file ?? entry.path
    const stat = { dev: BigInt(entry.dev), ino: BigInt(entry.ino), birthtimeNs: BigInt(entry.birth), uid: entry.uid }
    const start = place instanceof Copy ? positionOf(entry) : restOf(place, entry, context.reach)
    if (!start) return undefined
    const tailer = this.#create(entry.path, stat, name, start)
    if (!this.#moveTo(tailer, place)) return undefined
    // The content of the file may have been replaced. A copy was compared before, and may have the inode of the file.
    const isIt = (one: Listed) => one.key === keyOf(stat) && !isOther(one.stat, stat.birthtimeNs)
    if (!(place instanceof Copy) && isIt(place) && !this.#isAsSaved(tailer, entry, place)) return undefined
    saved.remove(entry)
    if (place instanceof Copy) tailer.sees(entry.size ?? 0)
    else {
      // The file at this place may contain other data that begins with the same bytes.
      this.displace(name, this.vacantSince(name))
      tailer.fellBehind()
      // The entry's file was empty, so this may be another file. Or it could not be opened, so it may be a copy.
      const mayBeCopy = entry.offset === 0 && (place.path === name || formatOfName(place.path) !== undefined)
      tailer.setUncompared(entry.head.bytes === 0 && mayBeCopy)
    }
    this.add(tailer, false)
    this.precede(name, tailer)
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
      this.options.problems.failed(path, 'read', error)
    } finally {
      if (verdict !== 'same') this.options.descriptors.close(tailer)
    }
    if (verdict) {
      this.#resumed(path, entry, verdict)
      // What the file holds now has not been read.
      this.displace(entry.file ?? entry.path, Number(stat.birthtimeNs || stat.mtimeNs) / 1e6)
    }
    return false
  }

  protected override add(tailer: Tailer, isNewest: boolean): void {
    const { saved, tailing } = this.options
    const former = saved.get(tailer.key)
    // The inode of `former` was reused. If two saved positions had the same inode, the next start would find only one.
    if (former) saved.replace(former, { ...former, gone: true })
    tailing.beginnings.add(tailer, tailer.head, tailer.trail.marks)
    super.add(tailer, isNewest)
  }

  /**
   * Called when the open file no longer contains what was read from it. The tailer `former` looks for a copy of the old
   * content, and a new tailer reads the current content from the beginning.
   */
  truncated(former: Tailer): void {
    const { tailing, descriptors, onForget } = this.options
    const { fd, key } = former
    // A portion of the old content is not lost, because it is taken before the next read finds the truncation.
    if (fd === undefined || former.hasPortion) return
    const stat = fstatSync(fd, { bigint: true })
    const start = beginningOf(fd)
    onForget(former)
    former.truncated()
    this.rekeyed(former, key)
    descriptors.close(former)
    const name = former.origin.path!
    const tailer = this.#create(former.path, stat, name, start)
    tailer.mayBeThere(this.sweeps)
    tailer.setUncompared(true)
    tailer.open(fd)
    this.add(tailer, true)
    descriptors.used(tailer)
    this.replace(former, tailer)
    this.hold(tailer)
    this.displace(name, former.sureUntil)
    this.unsaved++
    tailing.onTruncated(name, former.at, former.unread)
  }

  /** Prevents reading of the file until a sweep has searched for the files that must be read before it. */
  abstract hold(tailer: Tailer): void

  /** Continues to read a closed, missing file in its copy at `place`. Returns false if the copy cannot be read. */
  readOn(tailer: Tailer, place: Listed | Copy): boolean {
    const { key } = tailer
    if (!this.#moveTo(tailer, place)) return false
    // Comparing showed that it is a copy of this file.
    tailer.setUncompared(false)
    this.rekeyed(tailer, key)
    this.unsaved++
    return true
  }

  /** Forgets a copy's position if it is ahead of the position of `file`. The copy must be searched again. */
  releaseCopy(file: Tailer): void {
    const { known } = file
    this.options.saved.releaseCopy(known)
    const copy = known.claimed === undefined ? undefined : this.byKey(known.claimed)
    if (copy && copy !== file && isCopyAhead(copy.entry(), known)) this.forget(copy)
  }

  #moveTo(tailer: Tailer, place: Listed | Copy): boolean {
    const { descriptors, problems, context } = this.options
    if (place instanceof Copy) {
      tailer.readOn(place)
      return true
    }
    const { path, stat } = place
    try {
      descriptors.makeRoom()
      // An earlier file may have had the same inode.
      const known = this.tailerOf(path, stat)
      if (known && known !== tailer) return false
      const fd = openKnown(path, { key: keyOf(stat), birth: stat.birthtimeNs }, context.reach)
      if (fd === undefined) return false
      try {
        tailer.moveTo(path, stat, fd)
      } finally {
        if (tailer.fd !== fd) closeSync(fd)
      }
    } catch (error) {
      this.notOpened(path, error)
      return false
    }
    descriptors.used(tailer)
    problems.over(path)
    return true
  }

  /** Called when the file at `path` has the entry's inode. */
  #resumed(path: string, entry: Entry, verdict: Verdict): void {
    const { saved, tailing, context } = this.options
    const name = entry.file ?? entry.path
    saved.remove(entry)
    // The file at this place may contain other data that begins with the same bytes.
    this.displace(name, Math.min(this.lookedAtName(name), entry.sure ?? Number.POSITIVE_INFINITY))
    if (verdict === 'same') return
    // The old content may be in a copy.
    saved.put({ ...entry, ...(verdict === 'truncated' && { path, file: name }), gone: true })
    const { offset, size = 0 } = entry
    if (verdict === 'truncated') tailing.onTruncated(path, offset, Math.max(0, size - offset))
    else context.log.info({ file: path }, 'file is gone and its inode was reused')
  }

  forget(tailer: Tailer): void {
    const { descriptors, context, tailing, onForget } = this.options
    onForget(tailer)
    tailing.beginnings.delete(tailer)
    tailing.grown.delete(tailer)
    descriptors.close(tailer)
    tailer.park()
    this.remove(tailer)
    context.checkpoints.changed()
  }
}
