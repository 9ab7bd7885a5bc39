import type { BigIntStats } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { TimeSlices } from '../../../lib/time-slices.js'
import { ByFolder } from '../by-folder.js'
import { identityOf, keyOf, NO_BYTES } from '../identity.js'
import { wheres } from '../known/state.js'
import { openWithinSync } from '../opening.js'
import type { Tailer } from '../reading/tailer.js'
import { type Displaced, type Entry, entryKey } from '../saved.js'
import { Apply } from './apply.js'
import { Candidates, compressedIdentity, type Place } from './candidates.js'
import { Hidden } from './hidden.js'
import { Slots } from './inflated.js'
import { type Folder, type FolderComparison, type FolderSnapshot, Look } from './look.js'
import { compareAge, stemOf, stemsWithin } from './names.js'
import { Newcomers, originalsOf } from './newcomers.js'
import type { Listed } from './owners.js'
import { planOf, type Step, unexaminedOf, unseenOf, verdictOf } from './plan.js'
import type { SearchOptions } from './search-options.js'
import { nameOfEntry } from './subjects.js'
import { Unseen } from './unseen.js'

/**
 * Finds files that were renamed, copied or compressed, and files that came and went between two sweeps. Of each folder,
 * takes a snapshot (look.ts), decides what follows (plan.ts), and carries that out (apply.ts) if the folder is then still
 * as it was. Otherwise, looks at the folder again in the next search.
 */
export class Search {
  readonly newcomers: Newcomers
  readonly unseen: Unseen
  readonly hidden: Hidden
  readonly #options: SearchOptions
  readonly #candidates: Candidates
  readonly #look: Look
  readonly #apply: Apply
  /** Folders that must be looked at again. */
  #again = new Set<string>()
  /** Folders that could not be listed when they were last looked at. */
  readonly #unlisted = new Set<string>()
  /** The entries whose file this search found. */
  readonly #there = new Set<Entry>()
  #isRunning = false
  #isOver = false
  #mayMiss: (name: string) => boolean = () => false

  constructor(options: SearchOptions) {
    this.#options = options
    const { context } = options
    const open = (path: string) => openWithinSync(context.reach, path)
    const opening = { ...options, clock: context.clock, slots: new Slots(), open }
    this.#candidates = new Candidates(opening)
    this.hidden = new Hidden(opening)
    this.unseen = new Unseen({ ...options, isUnlisted: folder => this.#unlisted.has(folder) })
    this.newcomers = new Newcomers(opening)
    const { unseen, newcomers, hidden } = this
    const mayMiss = (name: string) => this.#mayMiss(name)
    const all = { ...opening, candidates: this.#candidates, hidden, unseen, newcomers, mayMiss }
    this.#look = new Look(all)
    this.#apply = new Apply(all)
  }

  get displacements(): Displaced[] {
    return [...this.unseen.all, ...this.hidden.displaced]
  }

  /** `mayMiss`: whether the sweep may miss the file that has this name, because a folder cannot be listed. */
  beginSweep(mayMiss: (name: string) => boolean): void {
    this.#mayMiss = mayMiss
  }

  /** Whether another search is needed, for names or for folders that changed. A folder may never be listable. */
  get isWaiting(): boolean {
    if (this.#again.size > 0) return true
    for (const folder of this.unseen.folders) if (!this.#unlisted.has(folder)) return true
    return false
  }

  get isComplete(): boolean {
    return this.#again.size === 0
  }

  /** Whether the entry's file is there, or another file that holds, or may hold, what was read of it. */
  isKept = (entry: Entry): boolean =>
    this.#there.has(entry) ||
    this.hidden.has(entry) ||
    (entry.claimed !== undefined && this.#candidates.has(dirname(entry.path), entry.claimed))

  /** Records a file that cannot be opened now. It is read when it can be opened, even if it was renamed before that. */
  noteUnopened(path: string, stat: BigIntStats, fromEnd: boolean): Entry {
    const { saved, context } = this.#options
    this.hidden.addUnopened(stat)
    const size = Number(stat.size)
    const known = saved.known(stat)
    if (known && (known.size ?? 0) >= size) return known
    const entry = {
      path,
      ...identityOf(stat),
      // Without a birth time, this shows which compressed files are older (see `mayBeCompressed` in plan.ts).
      ...(stat.birthtimeNs === 0n && { birth: String(stat.mtimeNs) }),
      offset: fromEnd ? size : 0,
      continues: false,
      head: NO_BYTES,
      tail: NO_BYTES,
      ...known,
      size,
    }
    saved.put(entry)
    context.checkpoints.changed()
    return entry
  }

  /**
   * Searches the folders of the `closed` files (which the sweep did not find), folders in which something changed and,
   * if `isThorough`, the folders of all files with a saved position.
   */
  async run(closed: readonly Tailer[], isThorough: boolean, slices: TimeSlices): Promise<void> {
    const { saved, remote } = this.#options
    this.#there.clear()
    this.newcomers.begin()
    this.hidden.begin(isThorough)
    const entries = saved.byFolder()
    const closedIn = new ByFolder<Tailer>()
    for (const tailer of closed) closedIn.add(tailer.path, tailer).add(tailer.target, tailer)
    const paths = this.#folders(closedIn.folders, isThorough, entries)
    this.#again = new Set(paths)
    this.#isRunning = true
    try {
      const folders: Folder[] = []
      for (const path of paths) {
        if (remote.isSilent(path)) continue
        const folder = await this.#look.list(path, entries.in(path), slices)
        if (!folder) continue
        if (folder.isListed) this.#unlisted.delete(path)
        else this.#unlisted.add(path)
        await this.#locate(folder, entries.in(path), closedIn.in(path), slices)
        folders.push(folder)
      }
      // Get the entries again, because `#locate` may have found truncated files.
      const positions = saved.byFolder()
      for (const folder of folders) {
        const { path, there } = folder
        const sought: Tailer[] = []
        const missing: Entry[] = []
        await slices.each(closedIn.in(path), one => {
          if (dirname(one.path) === path && !one.isOpen && !there.has(one)) sought.push(one)
        })
        await slices.each(positions.in(path), one => !there.has(one) && saved.holds(one) && missing.push(one))
        const snapshot = await this.#look.at(folder, sought, missing, slices)
        if (!snapshot || (await this.#decide(snapshot, slices))) this.#again.delete(path)
      }
      await this.unseen.wait(slices)
      const used = new Set([...positions.folders, ...paths])
      this.#candidates.keep(used)
      this.hidden.keep(used)
    } finally {
      this.#isRunning = false
      if (this.#isOver) this.#candidates.close()
      else this.#candidates.endSearch()
    }
  }

  #folders(closed: Iterable<string>, isThorough: boolean, entries: ByFolder<Entry>): ReadonlySet<string> {
    const { unseen, newcomers } = this
    const folders = new Set(this.#again)
    for (const { path, displaced } of this.hidden.uncovered()) {
      folders.add(dirname(path))
      for (const [name, since] of displaced ?? []) unseen.repeat({ path: name, since })
    }
    for (const some of [closed, unseen.folders, newcomers.folders]) for (const folder of some) folders.add(folder)
    for (const folder of entries.folders)
      if (isThorough || this.hidden.hasUnopened(entries.in(folder))) folders.add(folder)
    return folders
  }

  /** Finds files that still exist under another name, and resumes those that grew. */
  async #locate(
    { byKey, there, unexamined }: Folder,
    entries: Iterable<Entry>,
    closed: Iterable<Tailer>,
    slices: TimeSlices,
  ): Promise<void> {
    const { files } = this.#options
    const grown: { one: Listed; entry: Entry }[] = []
    const isThere = (entry: Entry) => {
      there.add(entry)
      this.#there.add(entry)
    }
    for (const entry of entries) {
      if (slices.due) await slices.pause()
      // It may be there. Even a copy of it does not show that it is gone.
      if (!entry.gone && unexamined.has(entry.path)) {
        this.hidden.addUnopened(entry)
        there.add(entry)
      }
      const one = entry.gone ? undefined : byKey.get(entryKey(entry))
      if (!one || !files.isSaved(one.stat, one.path)) continue
      isThere(entry)
      // If the file was renamed just before the stop, a program may still write to it. Without a birth time, a file that
      // was written after this one was released may be another one with its inode.
      const isWritten = entry.birth === '0' && Number(one.stat.mtimeNs) / 1e6 > (entry.away ?? 0)
      if (Number(one.stat.size) > entry.offset || entry.away === undefined || isWritten) grown.push({ one, entry })
    }
    // If several files had the same name, the oldest is read first.
    grown.sort((a, b) => Number(a.one.stat.mtimeNs - b.one.stat.mtimeNs) || compareAge(a.one.path, b.one.path))
    await slices.each(grown, ({ one, entry }) => {
      const unread = this.#apply.resume(one, entry)
      if (unread) isThere(unread)
    })
    for (const tailer of closed) {
      if (slices.due) await slices.pause()
      const one = byKey.get(tailer.key)
      if (!one || tailer.isOpen || !tailer.mayBe(one.path, one.stat)) continue
      tailer.rename(one.path)
      if (!tailer.look(one.stat)) continue
      there.add(tailer)
      if (!files.open(tailer)) tailer.to(wheres.stirred)
      else this.#apply.goOn(tailer, one.path)
    }
  }

  /** Decides what follows from a look, and carries it out. Returns false if the folder must be looked at again. */
  async #decide(snapshot: FolderSnapshot, slices: TimeSlices): Promise<boolean> {
    const { comparison, isListed, isIdle, over, unexamined } = snapshot
    const isStill = await this.#look.isStill(snapshot, slices)
    const end = (one: Displaced) =>
      this.#apply.readUnseen(one, { read: [], hidden: [] }, unexaminedOf(one.path, unexamined))
    if (isStill && isListed) await slices.each(over, end)
    if (!comparison) return isIdle && isStill
    const failed = new Set<Step['file']>()
    await slices.each(await slices.all(planOf(comparison)), step => {
      // A copy that has the rest of a file is read in any case. It was compared, and is opened by its key.
      if (!isStill && step.do !== 'note' && step.do !== 'continue') return
      if (!failed.has(step.file) && !this.#apply.step(step, snapshot)) failed.add(step.file)
    })
    if (!isStill) return false
    const left = new Map(comparison.unclaimed)
    if (isListed) await this.#readUnseen(snapshot, comparison, left, slices)
    await this.#takeUp(snapshot, comparison, left, slices)
    return failed.size === 0
  }

  /** Reads the files that nothing has claimed and that had a displaced name. Removes them from `left`. */
  async #readUnseen(
    { names, owners, originals, unexamined }: FolderSnapshot,
    { unreadable }: FolderComparison,
    left: Map<string, Place>,
    slices: TimeSlices,
  ): Promise<void> {
    const stems = new Set(names.map(({ path }) => stemOf(basename(path))))
    const [places, hidden] = [await byStem(left.values(), stems, slices), await byStem(unreadable, stems, slices)]
    for (const { path } of names) {
      if (slices.due) await slices.pause()
      const name = basename(path)
      const isOwn = ({ stat }: Listed) => owners.allow(name, stat.uid)
      const unclaimed = (places.get(stemOf(name)) ?? []).filter(one => left.has(one.key) && isOwn(one))
      const unread = (hidden.get(stemOf(name)) ?? []).filter(isOwn)
      const displaced = { path, since: this.unseen.since(path) }
      const found = unseenOf(displaced, originals.get(path), unclaimed, unread, this.#options.context.clock.wall())
      if (!found) continue
      for (const { key } of found.read) left.delete(key)
      this.#apply.readUnseen(displaced, found, unexaminedOf(path, unexamined))
    }
  }

  /** Decides about the new files that wait. `left`: the files that nothing has claimed. */
  async #takeUp(
    { path: folder, originals }: FolderSnapshot,
    { waiting, places, claimed, compared }: FolderComparison,
    left: ReadonlyMap<string, Place>,
    slices: TimeSlices,
  ): Promise<void> {
    const { files } = this.#options
    const { newcomers, unseen } = this
    const reading = this.#look.readingIn(folder)
    await slices.each(waiting, ({ path, stat, first }) => {
      const key = keyOf(stat)
      const place = places.get(key)
      const { tailer = place && reading.get(compressedIdentity(place)), entry } = claimed.get(key) ?? {}
      const of = tailer?.origin.path ?? (entry && nameOfEntry(entry))
      const names = originalsOf(path)
      const verdict = verdictOf({
        size: stat.size,
        quietMs: newcomers.quietMs(stat),
        first,
        names,
        originals: names.flatMap(name => originals.get(name) ?? []),
        of,
        isDelayed: names.some(name => unseen.delays(name)) || (of !== undefined && unseen.delays(of)),
        isCompared: compared.has(key),
        isRead: files.isRead(path, stat),
        isAtRest: this.#candidates.isAtRest(stat),
        isOld: files.isOld(stat),
        inflated: this.#candidates.firstBytes(folder, { name: basename(path), stat }),
        isUnclaimed: left.get(key)?.isCompressed === true,
      })
      this.#apply.takeUp({ path, stat, first }, verdict, left.get(key))
    })
  }

  /** Call at the stop. Frees the compressed file that is being inflated. */
  close(): void {
    this.#isOver = true
    if (!this.#isRunning) this.#candidates.close()
  }
}

/** The files whose names may be rotated names of a file whose name begins with a stem, by stem. */
async function byStem<T extends Listed>(files: Iterable<T>, stems: ReadonlySet<string>, slices: TimeSlices) {
  const found = new Map<string, T[]>()
  await slices.each(files, one => {
    for (const stem of stemsWithin(one.name, stems)) {
      const list = found.get(stem)
      if (list) list.push(one)
      else found.set(stem, [one])
    }
  })
  return found
}
