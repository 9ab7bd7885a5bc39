import type { BigIntStats } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { SourceContext } from '../../../core/component.js'
import { lacksDescriptor } from '../../../core/errors.js'
import { lstatSync, orNone, unlessSilent } from '../../../lib/files/disk/disk.js'
import type { Slices } from '../../../lib/slices.js'
import type { KnownBeginnings } from '../beginnings.js'
import type { Remote } from '../discovery/remote.js'
import { FINGERPRINT_BYTES, identityOf, keyOf, leadsTo, NO_BYTES } from '../identity.js'
import type { OpenFiles } from '../open-files.js'
import { openWithinSync } from '../opening.js'
import { isOfSystem, type PathProblems } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import { type Entry, entryKey, type Saved } from '../saved.js'
import { Apply, stateOf } from './apply.js'
import { Candidates, isCompressed, type Listed, list, listedOf, type Place, type Unreadable } from './candidates.js'
import { Hidden } from './hidden.js'
import { Slots } from './inflated.js'
import type { Losses } from './losses.js'
import { assign, type Claim } from './match.js'
import { compareAge, isRotatedName, stemOf, stemsWithin } from './names.js'
import { Newcomers, originalsOf } from './newcomers.js'
import { Owners } from './owners.js'
import { planOf } from './plan.js'
import { nameOf, ofEntry, ofTailer, type Subject } from './subjects.js'
import { Unseen } from './unseen.js'

export interface SearchOptions {
  readonly context: SourceContext
  readonly saved: Saved
  readonly problems: PathProblems
  readonly losses: Losses
  readonly remote: Remote
  readonly files: OpenFiles
  readonly beginnings: KnownBeginnings<Tailer>
  onReady(tailer: Tailer): void
  /** Called when the file gets no more bytes. Its unfinished last line is then delivered. */
  onEnd(tailer: Tailer): void
}

type Claimed = Claim<Subject, Place>

export interface Folder {
  readonly path: string
  readonly listed: readonly Listed[]
  readonly byKey: ReadonlyMap<string, Listed>
  /** The entries and tailers whose file was found or resumed. */
  readonly there: Set<Entry | Tailer>
  readonly owners: Owners
}

/** What comparing the files of a folder showed. */
interface Comparison {
  /** The files that are not known. */
  readonly others: readonly Listed[]
  wanted(one: Listed): boolean
  readonly places: readonly Place[]
  /** The places that are not being read. */
  readonly free: readonly Place[]
  readonly unclaimed: readonly Place[]
  readonly unreadable: readonly Unreadable[]
  readonly subjects: readonly Subject[]
  readonly claims: readonly Claimed[]
  /** The file that claims a place, by the key of the place. */
  readonly claimed: ReadonlyMap<string, Subject>
}

/**
 * Finds files that were renamed, copied or compressed, and files that came and went between two sweeps. Lists each
 * folder, lets known files claim the other files in the folder (match.ts), and then applies the claims immediately.
 */
export class Search {
  readonly newcomers: Newcomers
  readonly unseen: Unseen
  /** Files that must be read only after the files for which this search looks. */
  delays: ReadonlySet<Tailer> = new Set()
  readonly #options: SearchOptions
  readonly #candidates: Candidates
  readonly #apply: Apply
  /** Folders that must be looked at again. */
  #again = new Set<string>()
  /** Folders that could not be listed in this search. */
  readonly #unlisted = new Set<string>()
  /** Paths in listed folders that could not be examined in this search. */
  readonly #unexamined = new Set<string>()
  /** The entries whose file this search found. */
  readonly #there = new Set<Entry>()
  #isRunning = false
  #isOver = false
  readonly #hidden: Hidden

  constructor(options: SearchOptions) {
    this.#options = options
    this.#hidden = new Hidden(options)
    const { context } = options
    const open = (path: string) => openWithinSync(context.reach, path)
    const opening = { ...options, clock: context.clock, slots: new Slots(), open }
    const candidates = new Candidates(opening)
    this.#candidates = candidates
    const isUnlisted = (folder: string) => this.#unlisted.has(folder)
    this.unseen = new Unseen({ ...options, isUnlisted })
    this.newcomers = new Newcomers({ ...opening, candidates, delays: path => this.unseen.delays(path) })
    const unexaminedOf = (name: string) => this.#unexaminedOf(name)
    const { unseen } = this
    this.#apply = new Apply({ ...opening, candidates, hidden: this.#hidden, unseen, isUnlisted, unexaminedOf })
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
    this.#hidden.has(entry) ||
    (entry.claimed !== undefined && this.#candidates.has(dirname(entry.path), entry.claimed))

  /** Records a file that cannot be opened now. It is read when it can be opened, even if it was renamed before that. */
  noteUnopened(path: string, stat: BigIntStats, fromEnd: boolean): void {
    const { saved, context } = this.#options
    this.#hidden.addUnopened(stat)
    const size = Number(stat.size)
    const known = saved.known(stat)
    if (known && (known.size ?? 0) >= size) return
    saved.put({
      path,
      ...identityOf(stat),
      // Without a birth time, this shows which compressed files are older (see `#seekUnopened`).
      ...(stat.birthtimeNs === 0n && { birth: String(stat.mtimeNs) }),
      offset: fromEnd ? size : 0,
      continues: false,
      head: NO_BYTES,
      tail: NO_BYTES,
      ...known,
      size,
    })
    context.checkpoints.changed()
  }

  /**
   * Searches the folders of the `closed` files (which the sweep did not find), folders in which something changed and,
   * if `isThorough`, the folders of all files with a saved position. `now`: wall clock in milliseconds.
   */
  async run(closed: readonly Tailer[], isThorough: boolean, now: number, slices: Slices): Promise<void> {
    this.#there.clear()
    this.#unexamined.clear()
    this.unseen.begin()
    await this.newcomers.begin(slices)
    this.#hidden.begin(isThorough)
    const entries = this.#options.saved.byFolder()
    const paths = this.#folders(closed, isThorough, entries)
    const closedIn = new Map<string, Tailer[]>()
    for (const tailer of closed)
      for (const folder of new Set([dirname(tailer.path), dirname(tailer.target)])) {
        const list = closedIn.get(folder)
        if (list) list.push(tailer)
        else closedIn.set(folder, [tailer])
      }
    this.#again = new Set(paths)
    const delays = new Set<Tailer>()
    this.delays = delays
    this.#isRunning = true
    try {
      const folders: Folder[] = []
      for (const path of paths) {
        if (this.#options.remote.isSilent(path)) continue
        const folder = await this.#locate(path, entries.get(path) ?? [], closedIn.get(path) ?? [], slices)
        if (folder) folders.push(folder)
      }
      // Get the entries again, because `#locate` may have found truncated files.
      const positions = this.#options.saved.byFolder()
      for (const folder of folders) {
        const isSettled = await this.#decide(folder, positions, closedIn.get(folder.path) ?? [], now, slices)
        if (isSettled) this.#again.delete(folder.path)
      }
      for (const tailer of this.unseen.delayed()) delays.add(tailer)
      const isUsed = { has: (folder: string) => positions.has(folder) || paths.has(folder) }
      this.#candidates.keep(isUsed)
      this.#hidden.keep(isUsed)
    } finally {
      this.#isRunning = false
      if (this.#isOver) this.#candidates.close()
      else this.#candidates.endSearch()
    }
  }

  #folders(
    closed: readonly Tailer[],
    isThorough: boolean,
    entries: ReadonlyMap<string, readonly Entry[]>,
  ): ReadonlySet<string> {
    const folders = new Set(this.#again)
    for (const folder of this.#hidden.uncovered()) folders.add(folder)
    for (const { path, target } of closed) folders.add(dirname(path)).add(dirname(target))
    for (const folder of this.unseen.folders) folders.add(folder)
    for (const folder of this.newcomers.folders) folders.add(folder)
    for (const [folder, list] of entries) if (isThorough || this.#hidden.hasUnopened(list)) folders.add(folder)
    return folders
  }

  /**
   * Finds files that still exist under another name, and resumes those that grew. Returns undefined if the folder must
   * be searched again.
   */
  async #locate(
    path: string,
    entries: readonly Entry[],
    closed: readonly Tailer[],
    slices: Slices,
  ): Promise<Folder | undefined> {
    const { files } = this.#options
    this.#unlisted.delete(path)
    const listed = await this.#list(path, slices)
    if (!listed) return undefined
    const there = new Set<Entry | Tailer>()
    const byKey = new Map(listed.map(one => [keyOf(one.stat), one]))
    const grown: { one: Listed; entry: Entry }[] = []
    for (const entry of entries) {
      if (slices.due) await slices.pause()
      const one = entry.gone ? undefined : byKey.get(entryKey(entry))
      if (!one || !files.isSaved(one.stat, one.path)) continue
      there.add(entry)
      this.#there.add(entry)
      // If the file was renamed just before the stop, a program may still write to it. Without a birth time, a file that
      // was written after this one was released may be another one with its inode.
      const isWritten = entry.birth === '0' && Number(one.stat.mtimeNs) / 1e6 > (entry.away ?? 0)
      if (Number(one.stat.size) > entry.offset || entry.away === undefined || isWritten) grown.push({ one, entry })
    }
    // If several files had the same name, the oldest is read first.
    grown.sort((a, b) => Number(a.one.stat.mtimeNs - b.one.stat.mtimeNs) || compareAge(a.one.path, b.one.path))
    for (const { one, entry } of grown) {
      if (slices.due) await slices.pause()
      this.#apply.resume(one, entry)
    }
    for (const tailer of closed) {
      if (slices.due) await slices.pause()
      const one = byKey.get(tailer.key)
      if (!one || tailer.isOpen || !tailer.mayBe(one.path, one.stat)) continue
      tailer.rename(one.path)
      if (!tailer.look(one.stat)) continue
      there.add(tailer)
      if (!files.open(tailer)) tailer.stirred()
      else this.#apply.goOn(tailer, one.path)
    }
    return { path, listed, byKey, there, owners: this.#ownersIn(path, entries) }
  }

  /**
   * Decides about the files of a folder, and carries that out if the folder is then still as it was. Returns false if
   * the folder must be looked at again.
   */
  async #decide(
    folder: Folder,
    entries: ReadonlyMap<string, readonly Entry[]>,
    closed: readonly Tailer[],
    now: number,
    slices: Slices,
  ): Promise<boolean> {
    const { path } = folder
    const sought = closed.filter(tailer => dirname(tailer.path) === path && !tailer.isOpen && !folder.there.has(tailer))
    const isMissing = (entry: Entry) => !folder.there.has(entry) && this.#apply.isCurrent(entry)
    const missing = (entries.get(path) ?? []).filter(isMissing)
    const others = await this.#othersIn(folder, slices)
    const { names, over } = await this.unseen.namesIn(path, others, slices)
    const wanted = this.#wantedIn(folder, sought, missing)
    const hasNew = this.newcomers.in(path).length > 0
    const isIdle = sought.length + missing.length + names.length === 0 && !hasNew
    if (isIdle && over.length === 0) return true
    const compared = isIdle ? undefined : await this.#compare(folder, missing, names, others, wanted, slices)
    // If a file is renamed during a search, the list of the folder may contain neither of its two names.
    const later = await this.#list(path, slices)
    if (!later) return false
    // Other files of the folder may change all the time.
    const keys = new Set([...sought.map(({ key }) => key), ...missing.map(entryKey)])
    const isRelevant = (one: Listed) => wanted(one) || keys.has(keyOf(one.stat))
    const isSame = areEqual(await stampOf(later, isRelevant, slices), await stampOf(folder.listed, isRelevant, slices))
    const isListed = !this.#unlisted.has(path)
    if (isSame && isListed) for (const name of over) this.#endName(name)
    if (!compared) return isIdle && (isSame || !isListed)
    const areGone = new Set<Entry | Tailer | undefined>([...sought, ...missing])
    const gone = new Set(compared.subjects.filter(({ tailer, entry }) => areGone.has(tailer ?? entry)))
    const keysCompared = new Set(compared.free.map(({ key }) => key))
    for (const tailer of this.#readingIn(path).values())
      if (tailer.claimed !== undefined && keysCompared.has(tailer.claimed)) tailer.claim(undefined)
    const changed = new Set<Subject>()
    for (const step of planOf(compared.claims, compared.subjects, gone, keysCompared)) {
      if (slices.due) await slices.pause()
      // A copy that has the rest of a file is read in any case. It was compared, and is opened by its key.
      if (!isSame && step.do !== 'note' && step.do !== 'continue') continue
      if (!changed.has(step.file) && !this.#apply.step(step, folder)) changed.add(step.file)
    }
    const originals = await this.#originalsIn(path, names, slices)
    if (!(await this.#isAsCompared(compared, later, originals, slices)) || !isSame) return false
    const left = isListed ? await this.#readUnseen(folder, compared, names, now, slices) : keyed(compared.unclaimed)
    await this.#takeUp(path, compared, left, slices)
    return changed.size === 0
  }

  /** The files of the folder that are not known. Leaves out rotated files of other users, and reports them. */
  async #othersIn({ path, listed, owners }: Folder, slices: Slices): Promise<Listed[]> {
    const { files, problems } = this.#options
    const others: Listed[] = []
    const foreign: { readonly file: string }[] = []
    for (const one of listed) {
      if (slices.due) await slices.pause()
      if (files.isRead(one.path, one.stat) || files.isSaved(one.stat, one.path)) continue
      if (this.newcomers.has(one.path) || (owners.mayBeCopy(one) && isOwnLink(one, owners))) others.push(one)
      else foreign.push(...owners.describe(one))
    }
    problems.foreign(path, foreign)
    return others
  }

  /** Compares unknown files with known ones. Returns undefined if a file must be inflated further, or opened later. */
  async #compare(
    folder: Folder,
    missing: readonly Entry[],
    names: readonly string[],
    others: readonly Listed[],
    wanted: (one: Listed) => boolean,
    slices: Slices,
  ): Promise<Comparison | undefined> {
    const { path } = folder
    const isNew = (one: Listed) => this.newcomers.has(one.path)
    const { places, unreadable } = await this.#candidates.of(path, others, wanted, isNew, slices)
    this.#hidden.setUnreadable(path, unreadable)
    const reading = this.#readingIn(path)
    const free = places.filter(one => !reading.has(stateOf(one)))
    await this.#checkOpen(await this.#originalsIn(path, names, slices), slices)
    const subjects = await this.#subjectsIn(folder, missing, slices)
    const claims = await this.#assign(subjects, free, slices)
    if (!claims) return undefined
    const claimed = new Map(claims.map(({ candidate, file }) => [candidate.key, file]))
    const unclaimed = free.filter(({ key }) => !claimed.has(key))
    return { others, wanted, places, free, unreadable, subjects, claims, claimed, unclaimed }
  }

  /**
   * Whether the open files that may have copies still hold what was read of them, and the unclaimed files still have
   * their sizes. While files are compared, a copy may be made and its original truncated, or an empty copy may get its
   * content.
   */
  async #isAsCompared(
    { claims, claimed, unclaimed, others, wanted }: Comparison,
    later: readonly Listed[],
    originals: ReadonlyMap<string, Tailer>,
    slices: Slices,
  ): Promise<boolean> {
    const open = claims.flatMap(({ file: { tailer } }): [undefined, Tailer][] =>
      tailer?.fd === undefined ? [] : [[undefined, tailer]],
    )
    if (!(await this.#checkOpen([...originals, ...open], slices))) return false
    const sizes = new Map(later.map(({ stat }) => [keyOf(stat), stat.size]))
    const unknown = [...unclaimed, ...others.filter(one => wanted(one) && !claimed.has(keyOf(one.stat)))]
    return unknown.every(({ stat }) => sizes.get(keyOf(stat)) === stat.size)
  }

  /**
   * The files of a folder. If the folder cannot be listed, only the known files and the newcomers, and nothing counts as
   * gone. Returns undefined if the folder must be searched again.
   */
  async #list(folder: string, slices: Slices): Promise<Listed[] | undefined> {
    try {
      return await list(folder, slices, this.#unexamined)
    } catch (error) {
      unlessSilent(error)
      this.#options.problems.failed(folder, 'list', error)
      if (lacksDescriptor(error)) {
        this.#again.add(folder)
        return undefined
      }
      this.#unlisted.add(folder)
      const names = new Set(this.newcomers.in(folder).map(path => basename(path)))
      for (const { path } of this.#options.files.in(folder)) names.add(basename(path))
      return await listedOf(folder, names, slices)
    }
  }

  #ownersIn(folder: string, entries: readonly Entry[]): Owners {
    const owners = new Owners()
    for (const { origin, path, uid } of this.#options.files.in(folder)) owners.add(uid, origin.path ?? path, path)
    for (const entry of entries) owners.add(entry.uid, nameOf(entry), entry.path)
    return owners
  }

  /** The files that, by their names, may have copies in this folder. */
  async #originalsIn(folder: string, names: readonly string[], slices: Slices): Promise<ReadonlyMap<string, Tailer>> {
    const found = new Map<string, Tailer>()
    const { files } = this.#options
    const add = (name: string) => {
      const tailer = files.named(name)
      if (tailer && !tailer.copy) found.set(name, tailer)
    }
    for (const name of names) add(name)
    for (const path of this.newcomers.in(folder)) {
      if (slices.due) await slices.pause()
      for (const name of originalsOf(path)) add(name)
    }
    return found
  }

  /** Checks these files for truncations. Returns true if no file was truncated and all still have their names. */
  async #checkOpen(named: Iterable<[name: string | undefined, Tailer]>, slices: Slices): Promise<boolean> {
    const { files } = this.#options
    let areSame = true
    for (const [name, tailer] of named) {
      if (slices.due) await slices.pause()
      if (!files.open(tailer) || tailer.fd === undefined) continue
      // After this file was renamed, another file found by the search may have had the old name.
      if (tailer.hasPortion || (name !== undefined && !leadsTo(name, tailer.key))) areSame = false
      else if (this.#ask(tailer, () => this.#leaveTruncated(tailer))) areSame = false
    }
    return areSame
  }

  #leaveTruncated(tailer: Tailer): boolean {
    if (tailer.holds()) return false
    this.#options.files.truncated(tailer)
    return true
  }

  /** The answer of `read`; undefined if the file cannot be read, which is reported and must not end the search. */
  #ask(tailer: Tailer, read: () => boolean): boolean | undefined {
    try {
      return read()
    } catch (error) {
      unlessSilent(error)
      this.#options.problems.failed(tailer.path, 'read', error)
      return undefined
    }
  }

  /** Returns the test for uncompressed files to examine: new files, and files with a copy's name. */
  #wantedIn({ path, owners }: Folder, sought: readonly Tailer[], missing: readonly Entry[]): (one: Listed) => boolean {
    const stems = new Set<string>()
    const add = (name: string) => stems.add(stemOf(name))
    for (const { origin, path } of sought) for (const name of [origin.path ?? path, path]) add(basename(name))
    for (const entry of missing) for (const name of [nameOf(entry), entry.path]) add(basename(name))
    for (const name of this.unseen.in(path)) add(basename(name))
    return one => {
      if (this.newcomers.has(one.path)) return true
      for (const _ of stemsWithin(one.name, stems)) return owners.mayBeCopy(one)
      return false
    }
  }

  /** The files that are read from compressed copies, by the state of the copy. */
  #readingIn(folder: string): ReadonlyMap<string, Tailer> {
    const reading = new Map<string, Tailer>()
    for (const tailer of this.#options.files.in(folder)) if (tailer.copy) reading.set(stateOf(tailer.copy), tailer)
    return reading
  }

  async #subjectsIn(
    { path, there, byKey, owners }: Folder,
    missing: readonly Entry[],
    slices: Slices,
  ): Promise<Subject[]> {
    const subjects: Subject[] = []
    // A rotated file may belong to the next owner of the log.
    const add = (one: Subject) => subjects.push({ ...one, uids: owners.of(one.names[0]!) ?? one.uids })
    for (const tailer of [...this.#options.files.in(path)]) {
      if (tailer.copy) continue
      if (slices.due) await slices.pause()
      // Update the head of the file, because copies also contain what was written to the file after the sweep.
      if (tailer.fd !== undefined && tailer.at === 0 && tailer.head.bytes < FINGERPRINT_BYTES)
        this.#ask(tailer, () => tailer.holds())
      const there = byKey.get(tailer.key)
      add(ofTailer(tailer, there && tailer.mayBe(there.path, there.stat) ? there : undefined))
    }
    const { lookedAt } = this.#options.saved
    const entries = [...there].filter(one => 'offset' in one)
    for (const entry of entries) {
      // Without a comparison, the file may have other content by now.
      const one = this.#hidden.has(entry) ? undefined : byKey.get(entryKey(entry))
      if (this.#apply.isCurrent(entry)) add(ofEntry(entry, lookedAt, one))
    }
    for (const entry of missing) if (this.#apply.isCurrent(entry)) add(ofEntry(entry, lookedAt))
    return subjects
  }

  /** Whether a file that cannot be read may hold the rest of the tailer's file. */
  mayHideRestOf = (tailer: Tailer): boolean => this.#apply.mayHideRestOf(tailer)

  /** Call at the stop. Frees the compressed file that is being inflated. */
  close(): void {
    this.#isOver = true
    if (!this.#isRunning) this.#candidates.close()
  }

  /** Compares the files. Returns undefined if a file must first be inflated further, or cannot be opened now. */
  async #assign(
    subjects: readonly Subject[],
    places: readonly Place[],
    slices: Slices,
  ): Promise<Claimed[] | undefined> {
    const run = assign(subjects, places)
    try {
      for (let step = run.next(); ; ) {
        if (step.done) return step.value
        if (slices.due) await slices.pause()
        const question = step.value
        if (!question) {
          step = run.next(undefined)
          continue
        }
        let answered = this.#candidates.answer(question)
        if (!answered) {
          const isOver = await this.#candidates.inflate(question)
          slices.restart()
          answered = isOver ? this.#candidates.answer(question) : undefined
          if (!answered) return undefined
        }
        step = run.next(answered.answer)
      }
    } catch (error) {
      if (!lacksDescriptor(error)) throw error
      return undefined
    }
  }

  /** The paths that could not be examined, and may lead to a file that had this name. */
  #unexaminedOf(name: string): string[] {
    return [...this.#unexamined].filter(
      path => path === name || (dirname(path) === dirname(name) && isRotatedName(basename(path), basename(name))),
    )
  }

  /** Ends the search for a name, until files that it could not examine can be opened. */
  #endName(name: string): void {
    for (const path of this.#unexaminedOf(name)) this.unseen.noteUnreadable(path, name)
    this.unseen.end(name)
  }

  /** Reads the files that nothing has claimed and that had one of these names. Returns the files that are left. */
  async #readUnseen(
    { owners }: Folder,
    { unclaimed, unreadable }: Comparison,
    names: readonly string[],
    now: number,
    slices: Slices,
  ): Promise<Map<string, Place>> {
    const left = keyed(unclaimed)
    const stems = new Set(names.map(name => stemOf(basename(name))))
    const [rests, hidden] = [byStem(unclaimed, stems), byStem(unreadable, stems)]
    for (const name of names) {
      if (slices.due) await slices.pause()
      const stem = stemOf(basename(name))
      const isOwn = ({ stat }: Listed) => owners.allow(basename(name), stat.uid)
      const mayHave = (rests.get(stem) ?? []).filter(one => left.has(one.key) && isOwn(one))
      const since = this.unseen.since(name)
      for (const path of this.#unexaminedOf(name)) this.unseen.noteUnreadable(path, name)
      const places = this.unseen.of(name, mayHave, (hidden.get(stem) ?? []).filter(isOwn), now)
      let unread = places?.length ?? 0
      try {
        for (const place of places ?? []) {
          left.delete(place.key)
          if (this.#apply.readUnseen(name, place)) unread--
        }
      } finally {
        if (unread > 0) this.unseen.displaced(name, since)
      }
    }
    return left
  }

  /** Reads the new files that are not copies. `left`: the files that nothing has claimed. */
  async #takeUp(
    folder: string,
    { places, others, unreadable, claimed }: Comparison,
    left: ReadonlyMap<string, Place>,
    slices: Slices,
  ): Promise<void> {
    const reading = this.#readingIn(folder)
    const readers = new Map(places.map(one => [one.key, reading.get(stateOf(one))]))
    const copyOf = (key: string) => {
      const { tailer = readers.get(key), entry } = claimed.get(key) ?? {}
      return tailer?.origin.path ?? (entry && nameOf(entry))
    }
    const inflate = (stat: BigIntStats) => {
      const place = left.get(keyOf(stat))
      if (!place || !isCompressed(place) || place.stat.size !== stat.size) return false
      if (!this.#apply.isKnownByLink(place)) this.#apply.inflate(place.path, place)
      return true
    }
    // A file that cannot be read was not compared, and one that was known then may be set aside since.
    const unclear = [
      ...places.filter(({ first }) => first.length === 0),
      ...unreadable.filter(one => isOfSystem(one.error)),
    ]
    const examined = new Set(others.map(({ stat }) => keyOf(stat)))
    for (const { stat } of unclear) examined.delete(keyOf(stat))
    await this.newcomers.takeUp(folder, copyOf, examined, inflate, slices)
  }
}

/** A link to a file of the log's owner, or of root, may be another user's. */
function isOwnLink(one: Listed, owners: Owners): boolean {
  const link = orNone(() => lstatSync(one.path, { bigint: true, throwIfNoEntry: false }))
  return !link || link.uid === one.stat.uid || owners.mayBeCopy({ ...one, stat: link })
}

function keyed(places: readonly Place[]): Map<string, Place> {
  return new Map(places.map(one => [one.key, one]))
}

/** The relevant names and their files. */
async function stampOf(
  listed: readonly Listed[],
  isRelevant: (one: Listed) => boolean,
  slices: Slices,
): Promise<ReadonlyMap<string, string>> {
  const stamp = new Map<string, string>()
  for (const one of listed) {
    if (slices.due) await slices.pause()
    if (isRelevant(one)) stamp.set(one.name, keyOf(one.stat))
  }
  return stamp
}

function areEqual(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  if (a.size !== b.size) return false
  for (const [name, key] of a) if (b.get(name) !== key) return false
  return true
}

/** The files whose names may be rotated names of a file whose name begins with a stem, by stem. */
function byStem<T extends Listed>(files: readonly T[], stems: ReadonlySet<string>): ReadonlyMap<string, readonly T[]> {
  const found = new Map<string, T[]>()
  for (const one of files)
    for (const stem of stemsWithin(one.name, stems)) {
      const list = found.get(stem)
      if (list) list.push(one)
      else found.set(stem, [one])
    }
  return found
}
