import { basename, dirname } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import { closeSync, unlessSilent } from '../../../lib/files/disk/disk.js'
import type { Slices } from '../../../lib/slices.js'
import { PathMap } from '../by-folder.js'
import { formatOfName } from '../compression.js'
import { CLOCK_MS } from '../identity.js'
import { openWithinSync } from '../opening.js'
import { isOfSystem } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import type { Displaced } from '../saved.js'
import { type Listed, type Place, SETTLE_MS, type Unreadable } from './candidates.js'
import { compareAge, isRotatedName, stemOf, stemsWithin } from './names.js'
import type { SearchOptions } from './search.js'
import { beginsLike } from './subjects.js'

/**
 * How long a search may delay files. Without this limit, constant rotation, or a program that compresses a large file,
 * could delay them forever.
 */
const LONGEST_DELAY_MS = 10_000

interface UnseenOptions extends SearchOptions {
  /** Whether a folder cannot be listed. Nothing is found there, so nobody waits. */
  isUnlisted(folder: string): boolean
}

/** Names that now refer to another file than before. Between two sweeps, other files may also have had these names. */
export class Unseen {
  readonly #options: UnseenOptions
  /** Maps each displaced name to the earliest time at which it may have been displaced, wall clock in milliseconds. */
  readonly #displaced = new PathMap<number>()
  /**
   * Files that could not be opened, and the displaced name that each may have had. Each may be a new file or a copy.
   */
  readonly #unreadable = new Map<string, Displaced>()
  /** Like `#displaced`, for names whose search has ended, although sweeps may have missed the files that have them. */
  readonly #missed = new Map<string, number>()
  /** Whether the current sweep may miss the file that has this name. */
  #mayMiss: (name: string) => boolean = () => false
  /** Maps each name to the time at which the search first blocked files with this name. */
  readonly #waitingSince = new Map<string, number>()

  constructor(options: UnseenOptions) {
    this.#options = options
    const { displaced, names, lookedAt } = options.saved
    for (const { path, since } of displaced) this.displaced(path, since)
    // Even if no file had these names when the source stopped, files may have come and gone under the names since
    // then.
    if (lookedAt !== undefined) for (const name of names) if (!formatOfName(name)) this.displaced(name, lookedAt)
  }

  get displacements(): Displaced[] {
    const names = [...this.#displaced, ...this.#missed]
    return [...names.map(([path, since]) => ({ path, since })), ...this.#unreadable.values()]
  }

  get folders(): Iterable<string> {
    return this.#displaced.folders
  }

  in(folder: string): readonly string[] {
    return this.#displaced.in(folder)
  }

  since(name: string): number {
    return this.#displaced.get(name)!
  }

  /** Whether files with this name must wait for the search for the name. They do not wait forever. */
  delays(name: string): boolean {
    return this.#displaced.has(name) && !this.#isOverdue(name)
  }

  #isOverdue(name: string): boolean {
    const { context, isUnlisted } = this.#options
    const { clock } = context
    return isUnlisted(dirname(name)) || clock.now() - (this.#waitingSince.get(name) ?? clock.now()) > LONGEST_DELAY_MS
  }

  /** Records that the name now refers to another file than at the time `since`, wall clock in milliseconds. */
  displaced(name: string, since: number): void {
    this.#displaced.set(name, Math.min(since - CLOCK_MS, this.#displaced.get(name) ?? Number.POSITIVE_INFINITY))
  }

  /** Records that the file at `path`, which cannot be examined now, may have had the displaced name. */
  noteUnreadable(path: string, name: string): void {
    const { since = Number.POSITIVE_INFINITY } = this.#unreadable.get(path) ?? {}
    this.#unreadable.set(path, { path: name, since: Math.min(since, this.since(name)) })
    this.#options.context.checkpoints.changed()
  }

  /**
   * Starts a sweep, and repeats the searches for names that earlier sweeps missed. `mayMiss`: whether this sweep may
   * miss the file that has this name, because the folder cannot be listed.
   */
  beginSweep(mayMiss: (name: string) => boolean): void {
    this.#mayMiss = mayMiss
    for (const [name, since] of this.#missed) {
      if (mayMiss(name)) continue
      this.#missed.delete(name)
      keepEarlier(this.#displaced, name, since)
    }
  }

  /** Repeats the search for a displaced name when its unreadable file can be opened or is gone. */
  begin(): void {
    const { problems, context, remote } = this.#options
    for (const [file, { path, since }] of this.#unreadable) {
      if (remote.isSilent(file)) continue
      try {
        closeSync(openWithinSync(context.reach, file))
        problems.over(file)
      } catch (error) {
        unlessSilent(error)
        if (errorCode(error) !== 'ENOENT') {
          problems.failed(file, 'open', error)
          continue
        }
      }
      this.#unreadable.delete(file)
      keepEarlier(this.#displaced, path, since)
    }
  }

  /** Splits the folder's displaced names. `names`: those that an unknown file may have had. `over`: the others. */
  async namesIn(folder: string, unknown: readonly Listed[], slices: Slices) {
    const all = this.in(folder)
    // Compare only the newest changes, because there may be many files and many displaced names.
    const newest = new Map(all.map(name => [stemOf(basename(name)), Number.NEGATIVE_INFINITY]))
    for (const one of all.length > 0 ? unknown : []) {
      if (slices.due) await slices.pause()
      const changedAt = Number(one.stat.mtimeNs) / 1e6
      for (const stem of stemsWithin(one.name, newest)) if (changedAt > newest.get(stem)!) newest.set(stem, changedAt)
    }
    const mayHave = (name: string) => newest.get(stemOf(basename(name)))! >= this.since(name)
    return { names: all.filter(mayHave), over: all.filter(name => !mayHave(name)) }
  }

  /** Ends the search for a name. */
  end(name: string): void {
    // This search could list the folder, but a file that has the name may still be unread, because the sweep missed it.
    // If the file is renamed before a sweep finds it, only a search that goes back as far as this one finds it.
    if (this.#mayMiss(name)) keepEarlier(this.#missed, name, this.since(name))
    this.#displaced.delete(name)
    this.#waitingSince.delete(name)
  }

  /**
   * Ends the search for a name, and returns the unclaimed files that had the name, the oldest first. If one of these
   * files may be incomplete, returns undefined, and the search goes on. `now`: wall clock in milliseconds.
   */
  of(name: string, unclaimed: readonly Place[], unreadable: readonly Unreadable[], now: number): Place[] | undefined {
    const { problems, context, files } = this.#options
    const since = this.since(name)
    const current = files.named(name)
    // If both files have the same birth time or none, the current file is older if it was already known or read.
    const isNew = current?.isNew === true
    const isFormer = ({ stat }: Place) =>
      !current || (stat.birthtimeNs === current.birth ? isNew : stat.birthtimeNs < current.birth)
    const isLate = ({ name: found, stat }: Listed) =>
      isRotatedName(found, basename(name)) &&
      Number(stat.mtimeNs) / 1e6 >= since &&
      (stat.birthtimeNs === 0n || Number(stat.birthtimeNs) / 1e6 >= since)
    // The file server's clock may be ahead, or the clock may have been set back.
    const latest = context.clock.wall() + CLOCK_MS
    const mayGrow = ({ stat }: Place) => {
      const changedAt = Number(stat.ctimeNs) / 1e6
      return changedAt > now - SETTLE_MS && changedAt <= latest
    }
    // A program may still write to an empty file. But if it is younger than the current file, it is a copy in progress.
    const unseen = unclaimed.filter(
      one => isLate(one) && one.changedAt >= since && (one.first.length > 0 || isFormer(one)),
    )
    const mayBeCopy = ({ isCompressed, first }: Place) => isCompressed || (current && beginsLike(current, first))
    if (unseen.some(one => mayBeCopy(one) && mayGrow(one))) return undefined
    for (const one of unreadable) {
      if (!isLate(one)) continue
      if (isOfSystem(one.error)) this.noteUnreadable(one.path, name)
      else problems.hidden(one.path, one.error)
    }
    this.end(name)
    return unseen.sort((a, b) => a.changedAt - b.changedAt || compareAge(a.path, b.path))
  }

  /**
   * Files that have a displaced name now, or had one during the search. They must be read after the files that the
   * search finds.
   */
  *delayed(): Iterable<Tailer> {
    const { files, context, remote } = this.#options
    const now = context.clock.now()
    for (const name of this.#displaced.keys()) {
      // The search for the name begins when its file system answers again.
      if (!this.#waitingSince.has(name) || remote.isSilent(name)) this.#waitingSince.set(name, now)
      if (this.#isOverdue(name)) continue
      const current = files.named(name)
      if (current) yield current
      for (const tailer of files.withName(name)) {
        // Do not delay copies, because the search waits until they are read.
        if (tailer.held && !tailer.copy) yield tailer
      }
    }
  }
}

function keepEarlier(times: Map<string, number>, name: string, since: number): void {
  times.set(name, Math.min(since, times.get(name) ?? since))
}
