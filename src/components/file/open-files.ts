import type { BigIntStats } from 'node:fs'
import { dirname } from 'node:path'
import { errorCode } from '../../core/errors.js'
import { orNone, statSync, unlessSilent } from '../../lib/files/disk/disk.js'
import { TimeSlices } from '../../lib/time-slices.js'
import { formatOfName } from './compression.js'
import { type FoundFile, mayMiss, type NameKind } from './discovery/discovery.js'
import { fingerprintAt, keyOf, leadsTo, same } from './identity.js'
import { blocks, wheres } from './known/state.js'
import { followMoved } from './moved.js'
import { Opener, type OpenerOptions } from './opener.js'
import { isMangled } from './path-problems.js'
import { wasThere } from './positions.js'
import type { Tailer } from './reading/tailer.js'
import { list, namesIn } from './rotation/candidates.js'
import { type Compared, originalsOf } from './rotation/newcomers.js'
import { Search } from './rotation/search.js'
import { nameOfEntry } from './rotation/subjects.js'
import type { Displaced } from './saved.js'

/** Errors of a descriptor whose file was removed on the server, or whose file system is gone. */
const STALE = ['ESTALE', 'ENOTCONN']
/** How often a folder is listed at the stop to find files that are being renamed. */
const MOST_LOOKS = 4
/** Interval between folder searches for files whose names do not match. They may have grown after their release. */
const THOROUGH_MS = 600_000

/**
 * Sweeps the paths that may have changed. Invariants: a file that was found once is read while it grows, under any name
 * or none. It is released when it has been quiet for a while, was read to its end, and all of it is settled. If it no
 * longer matches, only its rest is read. Another file that took over an inode is never read.
 */
export class OpenFiles extends Opener {
  protected readonly search: Search
  /** Files that are not read yet, because Sluice still searches for files that must be read before them. */
  readonly #held = new Set<Tailer>()
  #isWhole = true
  /** Start times of the last three sweeps, the latest first, wall clock in milliseconds. */
  #began: readonly number[]
  #thoroughAt = 0
  /** Paths that could not be examined or opened, and `lookedAt` before. Since then, other files may have had them. */
  readonly #unexamined = new Map<string, number>()

  constructor(options: OpenerOptions) {
    super(options)
    this.#began = [options.saved.lookedAt ?? options.context.clock.wall()]
    const { remote, beginnings } = options.tailing
    this.search = new Search({ ...options, remote, beginnings, files: this })
  }

  /** The open files that the next start could not find, in the order in which they are read. */
  async unfindable(): Promise<Tailer[]> {
    const slices = new TimeSlices(this.options.context.clock)
    const { remote } = this.options.tailing
    const locate = async (tailers: Iterable<Tailer>) =>
      (await this.#locate(tailers, slices)).filter(({ path }) => !remote.isSilent(path))
    let found = await locate(this.tailers)
    // A file that was renamed while its folder was listed still has a name.
    for (let looks = 1; looks < MOST_LOOKS && found.some(one => !one.unlinked); looks++) found = await locate(found)
    // A compressed file is not read as lines, even if it was empty when it was opened.
    const lost = new Set(found.filter(({ beginsCompressed }) => !beginsCompressed))
    return [...new Set([...lost].flatMap(one => [...one.earlier.filter(earlier => lost.has(earlier)), one]))]
  }

  /** Wall clock in milliseconds. All rotations before this time were observed. */
  get lookedAt(): number {
    return this.#began.at(-1)!
  }

  get displaced(): Displaced[] {
    const unexamined = Array.from(this.#unexamined, ([path, since]) => ({ path, since }))
    return [...this.search.displacements, ...this.vacant, ...unexamined]
  }

  lookedAtName(path: string): number {
    return this.#unexamined.get(path) ?? this.lookedAt
  }

  /**
   * Examines the paths that a walk found, and the files found earlier whose paths this walk did not find. If not
   * `isWhole`, what is on a silent file system is left as it is.
   */
  async sweep(found: Pick<FoundFile, 'files' | 'unlisted'>, slices: TimeSlices, isWhole = true): Promise<void> {
    this.#isWhole = isWhole
    this.search.beginSweep(path => mayMiss(found, path))
    const now = this.options.context.clock.wall()
    const before = this.#began
    this.sweeps++
    this.startedAt = Math.min(this.startedAt, now)
    this.#began = [now, ...before].slice(0, 3)
    let isOver = false
    try {
      await this.#lookAt(found, slices)
      this.isFirst = false
      isOver = isWhole
    } finally {
      if (!isOver) this.#began = before
    }
  }

  /** Whether this sweep must not touch the path. */
  #isLeft(path: string): boolean {
    return !this.#isWhole && this.options.tailing.remote.isSilent(path)
  }

  async #lookAt(found: Pick<FoundFile, 'files' | 'unlisted'>, slices: TimeSlices): Promise<void> {
    const { files, unlisted } = found
    const { problems, saved, context, descriptors, onReady, tailing } = this.options
    if (this.isFirst && saved.savedAt !== undefined) await followMoved(saved, context, slices)
    descriptors.beginSweep()
    await slices.each(files, ([path, kind]) => {
      if (this.#isLeft(path)) this.#mayBeThere(path)
      else if (kind !== 'same' || !this.#glance(path)) this.examine(path, kind)
    })
    for (const path of this.names) {
      if (slices.due) await slices.pause()
      if (files.has(path)) continue
      // The walk may have left out a file system that answers now.
      if (!this.#isWhole && tailing.remote.has(path)) this.#mayBeThere(path)
      else this.vacate(path)
    }
    // While a folder cannot be listed, other files may have the names of files that are not read now.
    for (const entry of unlisted.size > 0 ? saved.entries() : [])
      if (mayMiss(found, nameOfEntry(entry))) this.#noteUnexamined(nameOfEntry(entry))
    for (const path of this.#unexamined.keys()) if (!files.has(path) && !mayMiss(found, path)) this.#wasExamined(path)
    const now = context.clock.now()
    const thorough = now >= this.#thoroughAt
    await this.succeed(slices)
    const held = [...this.#held]
    const unseen = await this.#unseen(slices)
    if (descriptors.areUsedUp) {
      await this.#locate(unseen, slices)
      descriptors.lookAgain()
    }
    const closed = await this.#visitAll(unseen, slices)
    await this.search.run(closed, thorough, slices)
    await this.#findOverwritten(slices)
    const { unseen: displaced } = this.search
    const isDelayed = (tailer: Tailer) => displaced.delays(tailer.found)
    await slices.each(held, tailer => {
      // A file that was renamed while it was held still comes after the files that had its name.
      const waits = isDelayed(tailer) || (tailer.isNew && displaced.delays(tailer.origin.path!))
      if (!waits && this.#release(tailer)) onReady(tailer)
    })
    // In the first sweep, nothing was read yet. So these files can still wait for files that were rotated unseen.
    if (this.isFirst) await slices.each(this.tailers, tailer => isDelayed(tailer) && this.#takeBack(tailer))
    problems.nextSweep()
    if (!thorough || !this.search.isComplete) return
    this.#thoroughAt = now + THOROUGH_MS
    saved.prune(context.clock.wall(), this.search.isKept)
  }

  /** Finds open files that were truncated before their end was read. Skips files that this sweep found unchanged. */
  async #findOverwritten(slices: TimeSlices): Promise<void> {
    const { lookedAt } = this
    for (const tailer of this.tailers) {
      if (tailer.sameIn === this.sweeps && tailer.at === tailer.size) {
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

  hold(tailer: Tailer): void {
    this.#held.add(tailer)
    tailer.becomes(blocks.held)
  }

  /** Holds a file that may already be in the reader's queue. */
  #takeBack(tailer: Tailer): void {
    if (!tailer.isNew || tailer.reading || tailer.held) return
    this.options.onForget(tailer)
    this.hold(tailer)
  }

  #release(tailer: Tailer): boolean {
    tailer.becomes(blocks.released)
    return this.#held.delete(tailer)
  }

  override forget(tailer: Tailer): void {
    super.forget(tailer)
    this.#release(tailer)
  }

  /** Whether files that were opened wait for a search. */
  get holdsFiles(): boolean {
    return this.#held.size > 0
  }

  /** Whether files wait for the next sweep. */
  get holds(): boolean {
    return this.holdsFiles || this.search.newcomers.wait
  }

  /** Whether Sluice still searches for files that were rotated unseen, or whether files wait to be opened. */
  get isSearching(): boolean {
    return this.search.isWaiting || this.options.descriptors.areRefused
  }

  async #unseen(slices: TimeSlices): Promise<Tailer[]> {
    const unseen: Tailer[] = []
    for (const tailer of this.tailers) {
      if (slices.due) await slices.pause()
      const { path, found } = tailer
      if (this.#isLeft(path)) continue
      // Even if the file is not read now, the search must know that it may be a copy.
      if (tailer.isUncompared && orNone(() => this.setAside(tailer))) continue
      if (this.named(path) !== tailer && this.named(found) === tailer) {
        tailer.rename(found)
        if (tailer.pending > 0 || tailer.parked) this.options.onReady(tailer)
      }
      if (tailer.seenIn !== this.sweeps) unseen.push(tailer)
    }
    return unseen
  }

  /** Quickly checks an open file in a folder whose names have not changed. */
  #glance(path: string): boolean {
    const { context, areWatched } = this.options
    const tailer = this.named(path)
    if (!tailer?.isOpen || context.isOwnOutput?.(tailer.key, tailer.birth)) return false
    const { checks, grownAt } = tailer
    const isKnown = checks.suffice(grownAt) && areWatched()
    if (!isKnown) checks.check()
    this.#seen(tailer, path, !isKnown && tailer.glance())
    return true
  }

  #seen(tailer: Tailer, path: string, changed: boolean): void {
    tailer.wasFound(this.sweeps, path, !changed)
    // If the file system was mounted again, only a new descriptor works.
    if (tailer.block === 'read' && !tailer.copy) this.options.descriptors.close(tailer)
    if (changed || tailer.failed) this.options.onReady(tailer)
  }

  /** Returns whether the path is a folder. `result`: what comparing the file with others showed. */
  examine(path: string, kind: NameKind = 'unknown', result?: Compared): boolean {
    let stat: BigIntStats | undefined
    try {
      stat = statSync(path, { bigint: true, throwIfNoEntry: false })
      if (!stat) {
        this.vacate(path)
        if (isMangled(path)) this.options.problems.mangled(path, 'open')
      } else if (stat.isFile()) this.#examineFile(path, stat, kind, result)
      else if (!stat.isDirectory() || kind === 'unknown') this.options.problems.skipped(path, stat)
      this.#wasExamined(path)
    } catch (error) {
      this.notOpened(path, error)
      // Another file had the name, and was renamed before it was opened.
      if (errorCode(error) === 'ENOENT') this.vacate(path)
      else if (!stat) {
        this.#mayBeThere(path)
        if (this.isName(path) || this.last(path)) this.#noteUnexamined(path)
        // The files after it must not wait.
        this.named(path)?.becomes(blocks.lookedFor)
      } else if (stat.isFile() && !this.byKey(keyOf(stat))) {
        this.vacate(path)
        const fromEnd = this.isFromEnd && wasThere(stat, path, this.options.saved)
        const entry = this.search.noteUnopened(path, stat, fromEnd)
        // Nothing of the file was read, so its copies are unknown, too. A copy may have the times of the file.
        const isUnread = !fromEnd && entry.head.bytes === 0 && entry.birth !== '0'
        this.#noteUnexamined(path, isUnread ? Number(entry.birth) / 1e6 : undefined)
      }
    }
    return stat?.isDirectory() === true
  }

  #noteUnexamined(path: string, since = Number.POSITIVE_INFINITY): void {
    this.#unexamined.set(path, Math.min(since, this.lookedAtName(path)))
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
    this.named(path)?.mayBeThere(this.sweeps)
  }

  #examineFile(path: string, stat: BigIntStats, kind: NameKind, result: Compared | undefined): void {
    const { context, problems, saved } = this.options
    const key = keyOf(stat)
    if (context.isOwnOutput?.(key, stat.birthtimeNs)) {
      problems.ownOutput(path)
      const tailer = this.byKey(key)
      if (tailer) this.forget(tailer)
      return
    }
    let tailer = this.tailerOf(path, stat)
    const isNew = !tailer && !result && !saved.known(stat)
    if (isNew && this.search.newcomers.add(path, kind, stat)) {
      this.vacate(path)
      return
    }
    const changed = tailer?.look(stat)
    // The name may refer to another file by now.
    tailer ??= this.adopt(path, kind, result)
    if (!tailer) return
    this.setName(path, tailer)
    if (this.search.unseen.delays(path)) this.#takeBack(tailer)
    this.#seen(tailer, path, changed ?? true)
  }

  protected rotated(path: string, tailer: Tailer, former: Tailer): void {
    const { rotations, context, onReady } = this.options
    rotations.value++
    context.log.info({ file: path }, 'file was rotated')
    const { head } = former
    const { fd } = tailer
    const first = fd === undefined || head.bytes === 0 ? undefined : orNone(() => fingerprintAt(fd, 0, head.bytes))
    if (first && same(first, head) && former.unlinked)
      context.log.warn(
        { file: path, read_bytes: former.at },
        'file was replaced (editors do this) by a new file that begins with the same bytes; reading the new file from its beginning',
      )
    // Other files may have had the name in between. The next sweep finds them, and the new name of a closed `former`.
    this.#takeBack(tailer)
    // The former file may have more to read.
    if (former.isOpen && !former.held) onReady(former)
  }

  /**
   * Records that the name refers to another file than before. From then on, a search looks for files that had the
   * name after `since` (wall clock in milliseconds).
   */
  displace(path: string, since = this.lookedAtName(path)): void {
    // The first sweep of a first run does not search for earlier files.
    if (!this.isFirstEver) this.search.unseen.displaced(path, since)
  }

  /**
   * Called for a name that appeared after `lookedAt`, wall clock in milliseconds. If rotation creates such names, a file
   * may have come and gone between two sweeps.
   */
  noteName(path: string, lookedAt: number): boolean {
    const known = originalsOf(path).filter(original => this.last(original))
    for (const original of known) this.displace(original, Math.min(lookedAt, this.lookedAtName(original)))
    return known.length > 0
  }

  /** Call at the stop. Frees what a search that is not complete keeps open. */
  close(): void {
    this.search.close()
  }

  /**
   * Finds the new names of open files that were renamed. Returns the files that the next start could not find, because
   * they have no name or a name in another folder.
   */
  async #locate(tailers: Iterable<Tailer>, slices: TimeSlices): Promise<Tailer[]> {
    const sought = new Map<string, Tailer>()
    await slices.each(tailers, tailer => {
      if (tailer.isOpen && !tailer.copy && !leadsTo(tailer.path, tailer.key, true)) sought.set(tailer.key, tailer)
    })
    for (const folder of new Set([...sought.values()].map(({ path }) => dirname(path)))) {
      const unexamined = new Set<string>()
      try {
        for (const { path, key } of await list(folder, slices, unexamined)) {
          const tailer = sought.get(key)
          if (!tailer || dirname(tailer.path) !== folder) continue
          tailer.rename(path)
          sought.delete(tailer.key)
        }
      } catch {
        unexamined.add(folder)
      }
      // What cannot be listed or examined says nothing about the files.
      for (const [key, { path, unlinked }] of unexamined.size > 0 ? sought : [])
        if (dirname(path) === folder && !unlinked) sought.delete(key)
    }
    return [...sought.values()]
  }

  /** Handles the files that the sweep did not find. Returns those that have to be searched for. */
  async #visitAll(tailers: readonly Tailer[], slices: TimeSlices): Promise<Tailer[]> {
    const { clock, checkpoints } = this.options.context
    const now = clock.now()
    const closed: Tailer[] = []
    await slices.each(tailers, tailer => {
      // Saves the size of the file, so that the next start after a kill can count lost bytes.
      if (tailer.where.is === 'named') checkpoints.changed()
      tailer.to(wheres.left)
      if (tailer.copy?.isLost) tailer.leaveCopy()
      tailer.copy?.look()
      if (!tailer.isOpen || !this.#visit(tailer, now)) closed.push(tailer)
    })
    return closed
  }

  /** Handles an open file. Returns false if its descriptor is of no use any more, and the file is closed. */
  #visit(tailer: Tailer, now: number): boolean {
    const { onReady, onEnd, problems, options, descriptors } = this.options
    if (tailer.isQueued && !tailer.failed) {
      tailer.to(wheres.stirred)
      return true
    }
    let left = 0
    try {
      left = tailer.left()
    } catch (error) {
      unlessSilent(error)
      tailer.becomes(blocks.read)
      problems.failed(tailer.path, 'read', error)
      if (STALE.includes(errorCode(error) ?? '')) {
        descriptors.close(tailer)
        return false
      }
    }
    // It is unknown whether a postponed file grew in the meantime.
    if (tailer.isPostponed) tailer.to(wheres.stirred)
    tailer.becomes(blocks.lookedFor)
    if (left !== 0 && !tailer.failed) {
      tailer.to(wheres.stirred)
      onReady(tailer)
    } else if (now - quietSince(tailer) < options.rotate_wait) {
      if (tailer.failed) onReady(tailer)
    } else if (tailer.pending > 0 && !tailer.failed) onEnd(tailer)
    else this.retire(tailer)
    return true
  }

  /** Releases a file that has been quiet for long enough. Keeps its position, because the file may reappear. */
  retire(tailer: Tailer): void {
    const { context, saved, options } = this.options
    if (context.clock.now() - quietSince(tailer) < options.rotate_wait || tailer.unsettled || tailer.reading) return
    const { unlinked } = tailer
    // Keep the entry, because without it the next run could match another file to the copy of this file.
    const mayBeCopied = unlinked && mayHoldCopies(dirname(tailer.path))
    const mayBeHidden = tailer.unread > 0 && this.search.hidden.mayHideRestOf(tailer)
    if (tailer.unread > 0 && !mayBeHidden) this.#reportLost(tailer)
    const entry = { ...tailer.entry(), cut: tailer.copy?.cut, ...(!mayBeHidden && { away: context.clock.wall() }) }
    if (!unlinked) saved.put(entry)
    else if (mayBeCopied) saved.put({ ...entry, gone: true })
    this.forget(tailer)
  }

  #reportLost({ origin, path, unread: bytes, truncatedSince, awaySince }: Tailer): void {
    const { losses, context } = this.options
    const file = origin.path ?? path
    const isTruncated = truncatedSince !== undefined
    const since = truncatedSince ?? context.clock.wall() - (context.clock.now() - awaySince!)
    const msg = isTruncated
      ? 'file was truncated before it was read to its end, and no copy has the rest'
      : 'file vanished before it was read to its end'
    losses.report({ file, bytes, since, kind: isTruncated ? 'truncated' : 'vanished', msg })
  }
}

/** Whether there are compressed files in the folder, or it cannot be listed. */
function mayHoldCopies(folder: string): boolean {
  const names = orNone(() => namesIn(folder))
  return names === undefined || names.some(name => formatOfName(name) !== undefined)
}

/** Since when the file has been missing and has not grown. */
function quietSince({ awaySince, grownAt }: Tailer): number {
  return Math.max(awaySince!, grownAt)
}
