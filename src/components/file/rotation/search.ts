import type { BigIntStats } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { SourceContext } from '../../../core/component.js'
import { lacksDescriptor } from '../../../core/errors.js'
import { existsSync, orNone, unlessSilent } from '../../../lib/files/disk/disk.js'
import type { Slices } from '../../../lib/slices.js'
import type { KnownBeginnings } from '../beginnings.js'
import { formatOfName } from '../compression.js'
import type { Remote } from '../discovery/remote.js'
import { CLOCK_MS, FINGERPRINT_BYTES, isOther, keyOf, leadsTo, NO_BYTES } from '../identity.js'
import type { OpenFiles } from '../open-files.js'
import { openWithinSync } from '../opening.js'
import { isOfSystem, type PathProblems } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import { type Entry, entryKey, type Saved, wasCopyAhead } from '../saved.js'
import { Candidates, isCompressed, type Listed, list, listedOf, type Place, type Unreadable } from './candidates.js'
import { Hidden } from './hidden.js'
import { Slots } from './inflated.js'
import type { Losses } from './losses.js'
import { assign, type Claim } from './match.js'
import { compareAge, isRotatedName, mayBecome, stemOf, stemsWithin } from './names.js'
import { Newcomers, originalsOf } from './newcomers.js'
import { Owners } from './owners.js'
import { identityOf, Rests, stateOf } from './rests.js'
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

interface Folder {
  readonly path: string
  readonly listed: readonly Listed[]
  readonly byKey: ReadonlyMap<string, Listed>
  /** The entries and tailers whose file was found or resumed. */
  readonly there: Set<Entry | Tailer>
  readonly owners: Owners
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
  readonly #rests: Rests
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
    const searchAgain = (folder: string) => this.#again.add(folder)
    this.#rests = new Rests({ ...opening, candidates, hidden: this.#hidden, searchAgain })
    this.newcomers = new Newcomers({ ...opening, candidates, delays: path => this.unseen.delays(path) })
    this.unseen = new Unseen({ ...options, isUnlisted: folder => this.#unlisted.has(folder) })
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
    for (const folder of this.#hidden.uncovered()) this.#again.add(folder)
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
    this.#again = new Set()
    const delays = new Set<Tailer>()
    this.delays = delays
    this.#isRunning = true
    try {
      const folders: Folder[] = []
      for (const path of paths) {
        if (this.#options.remote.isSilent(path)) {
          this.#again.add(path)
          continue
        }
        const folder = await this.#locate(path, entries.get(path) ?? [], closedIn.get(path) ?? [], slices)
        if (folder) folders.push(folder)
      }
      // Get the entries again, because `#locate` may have found truncated files.
      const positions = this.#options.saved.byFolder()
      for (const folder of folders) await this.#decide(folder, positions, closedIn.get(folder.path) ?? [], now, slices)
      for (const tailer of this.unseen.delayed()) delays.add(tailer)
      if (!this.isWaiting) this.unseen.isStarting = false
      const isUsed = { has: (folder: string) => positions.has(folder) || paths.has(folder) }
      this.#candidates.keep(isUsed)
      this.#hidden.keep(isUsed)
    } catch (error) {
      for (const path of paths) this.#again.add(path)
      throw error
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
    const { files, context } = this.#options
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
      // If the file was renamed just before the stop, a program may still write to it.
      if (Number(one.stat.size) > entry.offset || entry.away === undefined) grown.push({ one, entry })
    }
    // If several files had the same name, the oldest is read first.
    grown.sort((a, b) => Number(a.one.stat.mtimeNs - b.one.stat.mtimeNs) || compareAge(a.one.path, b.one.path))
    for (const { one, entry } of grown) {
      if (slices.due) await slices.pause()
      this.#rests.resume(one, entry)
    }
    for (const tailer of closed) {
      if (slices.due) await slices.pause()
      const one = byKey.get(tailer.key)
      if (!one || tailer.isOpen || isOther(one.stat, tailer.birth) || !mayBecome(tailer.path, one.path)) continue
      tailer.path = tailer.found = one.path
      if (!tailer.look(one.stat)) continue
      there.add(tailer)
      if (!files.open(tailer)) tailer.awaySince = context.clock.now()
      else this.#rests.goOn(tailer, one.path)
    }
    return { path, listed, byKey, there, owners: this.#ownersIn(path, entries) }
  }

  /** Matches the files of a folder with known files, and applies the result. */
  async #decide(
    folder: Folder,
    entries: ReadonlyMap<string, readonly Entry[]>,
    closed: readonly Tailer[],
    now: number,
    slices: Slices,
  ): Promise<void> {
    const { path, owners } = folder
    const sought = closed.filter(tailer => dirname(tailer.path) === path && !tailer.isOpen && !folder.there.has(tailer))
    const missing = (entries.get(path) ?? []).filter(entry => !folder.there.has(entry) && this.#isCurrent(entry))
    const { files, problems } = this.#options
    const others: Listed[] = []
    const foreign: { readonly file: string }[] = []
    for (const one of folder.listed) {
      if (slices.due) await slices.pause()
      if (files.isRead(one.stat) || files.isSaved(one.stat, one.path)) continue
      if (this.newcomers.has(one.path) || owners.mayBeCopy(one)) others.push(one)
      else foreign.push(...owners.describe(one))
    }
    problems.foreign(path, foreign)
    const { names, over } = await this.unseen.namesIn(path, others, slices)
    const wanted = this.#wantedIn(folder, sought, missing)
    // Other files of the folder may change all the time.
    const keys = new Set([...sought.map(({ key }) => key), ...missing.map(entryKey)])
    const isRelevant = (one: Listed) => wanted(one) || keys.has(keyOf(one.stat))
    const isAsBefore = async (later: readonly Listed[]) =>
      areEqual(await stampOf(later, isRelevant, slices), await stampOf(folder.listed, isRelevant, slices))
    if (over.length > 0) {
      // If a file is renamed during a search, the list of the folder may contain neither of its two names.
      const later = await this.#list(path, slices)
      const isSure = later && !this.#unlisted.has(path) && (await isAsBefore(later))
      if (isSure) for (const name of over) this.#endName(name)
      else if (!this.#unlisted.has(path)) this.#again.add(path)
    }
    const hasNew = this.newcomers.in(path).length > 0
    if (sought.length + missing.length + names.length === 0 && !hasNew) return
    const isNew = (one: Listed) => this.newcomers.has(one.path)
    const { places, unreadable } = await this.#candidates.of(path, folder.listed, others, wanted, isNew, slices)
    this.#hidden.setUnreadable(path, unreadable)
    const reading = this.#readingIn(path)
    const free = places.filter(one => !reading.has(stateOf(one)))
    await this.#checkOpen(await this.#originalsIn(path, names, slices), slices)
    const subjects = await this.#subjectsIn(folder, missing, slices)
    const claims = await this.#assign(subjects, free, slices)
    if (!claims) {
      this.#again.add(path)
      return
    }
    const later = await this.#list(path, slices)
    if (!later) return
    const isSame = await isAsBefore(later)
    const unread = await this.#apply(claims, new Set([...sought, ...missing]), isSame, subjects, slices)
    if (this.#unlisted.has(path)) {
      // Nothing shows that these files are gone, but the files after them must not wait.
      for (const tailer of sought) if (!unread.has(tailer)) leave(tailer)
    } else if (isSame) {
      for (const tailer of sought) {
        if (slices.due) await slices.pause()
        if (!unread.has(tailer)) this.#over(tailer, folder)
      }
      const claiming = new Set(claims.map(({ file }) => file.entry))
      for (const entry of missing) {
        if (slices.due) await slices.pause()
        if (!claiming.has(entry)) this.#lose(entry, folder)
      }
    }
    this.#dropOldClaims(subjects, free, claims, reading.values())
    const open = claims.flatMap(({ file: { tailer } }): [undefined, Tailer][] => (tailer ? [[undefined, tailer]] : []))
    const byPlace = new Map(claims.map(claim => [claim.candidate.key, claim.file]))
    const unclaimed = free.filter(({ key }) => !byPlace.has(key))
    const left = new Map(unclaimed.map(one => [one.key, one]))
    const originals = await this.#originalsIn(path, names, slices)
    const areTold = await this.#checkOpen([...originals, ...open.filter(([, { fd }]) => fd !== undefined)], slices)
    // While files are compared, a copy may be made and its original truncated, or an empty copy may get its content.
    const sizes = new Map(later.map(({ stat }) => [keyOf(stat), stat.size]))
    const unknown = [...unclaimed, ...others.filter(one => wanted(one) && !byPlace.has(keyOf(one.stat)))]
    if (!isSame || !areTold || unknown.some(({ stat }) => sizes.get(keyOf(stat)) !== stat.size)) {
      this.#again.add(path)
      return
    }
    if (!this.#unlisted.has(path)) {
      const stems = new Set(names.map(name => stemOf(basename(name))))
      const [rests, hidden] = [byStem(unclaimed, stems), byStem(unreadable, stems)]
      for (const name of names) {
        if (slices.due) await slices.pause()
        const stem = stemOf(basename(name))
        const isOwn = ({ stat }: Listed) => owners.allow(basename(name), stat.uid)
        const [mayHave, hide] = [rests.get(stem) ?? [], hidden.get(stem) ?? []]
        this.#readUnseen(name, mayHave.filter(isOwn), left, hide.filter(isOwn), now)
      }
    }
    const readingNow = this.#readingIn(path)
    const readers = new Map(places.map(one => [one.key, readingNow.get(stateOf(one))]))
    const copyOf = (key: string) => {
      const { tailer = readers.get(key), entry } = byPlace.get(key) ?? {}
      return tailer?.origin.path ?? (entry && nameOf(entry))
    }
    const inflate = (stat: BigIntStats) => {
      const place = left.get(keyOf(stat))
      if (!place || !isCompressed(place) || place.stat.size !== stat.size) return false
      if (!this.#rests.isKnownByLink(place)) this.#rests.inflate(place.path, place)
      return true
    }
    // A file that cannot be read was not compared, and one that was known then may be set aside since.
    const unclear = [
      ...places.filter(({ first }) => first.length === 0),
      ...unreadable.filter(one => isOfSystem(one.error)),
    ]
    const examined = new Set(others.map(({ stat }) => keyOf(stat)))
    for (const { stat } of unclear) examined.delete(keyOf(stat))
    await this.newcomers.takeUp(path, copyOf, examined, inflate, slices)
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

  async #subjectsIn({ path, there, byKey }: Folder, missing: readonly Entry[], slices: Slices): Promise<Subject[]> {
    const subjects: Subject[] = []
    for (const tailer of [...this.#options.files.in(path)]) {
      if (tailer.copy) continue
      if (slices.due) await slices.pause()
      // Update the head of the file, because copies also contain what was written to the file after the sweep.
      if (tailer.fd !== undefined && tailer.at === 0 && tailer.head.bytes < FINGERPRINT_BYTES)
        this.#ask(tailer, () => tailer.holds())
      const there = byKey.get(tailer.key)
      const isIt = there && mayBecome(tailer.path, there.path) && !isOther(there.stat, tailer.birth)
      subjects.push(ofTailer(tailer, isIt ? there : undefined))
    }
    const { lookedAt } = this.#options.saved
    const entries = [...there].filter(one => 'offset' in one)
    for (const entry of entries) {
      // Without a comparison, the file may have other content by now.
      const one = this.#hidden.has(entry) ? undefined : byKey.get(entryKey(entry))
      if (this.#isCurrent(entry)) subjects.push(ofEntry(entry, lookedAt, one))
    }
    for (const entry of missing) if (this.#isCurrent(entry)) subjects.push(ofEntry(entry, lookedAt))
    return subjects
  }

  #isCurrent(entry: Entry): boolean {
    return this.#options.saved.get(entryKey(entry)) === entry
  }

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

  /** Continues in copies, the oldest first. Returns the files whose copy was just renamed or removed. */
  async #apply(
    claims: readonly Claimed[],
    sought: ReadonlySet<Entry | Tailer>,
    isSure: boolean,
    subjects: readonly Subject[],
    slices: Slices,
  ): Promise<ReadonlySet<Tailer>> {
    const unread = new Set<Tailer>()
    const claimants = new Map<string, readonly Subject[]>()
    for (const one of subjects) {
      if (one.claimed === undefined) continue
      claimants.set(one.claimed, [...(claimants.get(one.claimed) ?? []), one])
    }
    for (const { file, candidate, relation } of [...claims].sort(
      (a, b) => a.candidate.changedAt - b.candidate.changedAt,
    )) {
      const { tailer, entry } = file
      if (slices.due) await slices.pause()
      tailer?.noteCopy(candidate.size, size => orNone(() => file.markIn(size)))
      if (tailer ? !sought.has(tailer) || tailer.isOpen : !sought.has(entry!) || !this.#isCurrent(entry!)) continue
      const isRest = relation === 'rest' || (relation === 'whole' && !candidate.isCompressed)
      if (!isRest && !isSure) continue
      if (tailer && !isRest && tailer.at < file.position.offset) {
        // A batch came back while the files were compared, so the copy may have what must be read again.
        this.#again.add(dirname(tailer.path))
        unread.add(tailer)
      } else if (tailer) {
        if (!this.#rests.found(tailer, candidate, isRest)) unread.add(tailer)
      } else if (isRest) this.#rests.readOn(entry!, candidate)
      else if (!candidate.isCompressed) this.#rests.putEnd(candidate, nameOf(entry!))
      if (!entry || isRest) continue
      this.#setClaim(file, candidate.key)
      // The copy is compressed now, and another file may get its inode.
      if (entry.claimed !== undefined)
        for (const one of claimants.get(entry.claimed) ?? []) if (one !== file) this.#setClaim(one, candidate.key)
    }
    return unread
  }

  #setClaim({ tailer, entry }: Subject, claimed: string | undefined): void {
    if (tailer) tailer.claimed = claimed
    else if (this.#isCurrent(entry!)) this.#options.saved.replace(entry!, { ...entry!, claimed })
  }

  /** If the copy of a file is gone, its inode may belong to another file's copy now. None of `places` is being read. */
  #dropOldClaims(
    subjects: readonly Subject[],
    places: readonly Place[],
    claims: readonly Claimed[],
    reading: Iterable<Tailer>,
  ): void {
    const compared = new Set(places.map(({ key }) => key))
    for (const tailer of reading)
      if (tailer.claimed !== undefined && compared.has(tailer.claimed)) tailer.claimed = undefined
    const owners = new Map(claims.map(({ candidate, file }) => [candidate.key, file]))
    for (const subject of subjects) {
      const { tailer, entry } = subject
      const { claimed } = tailer ?? entry!
      if (claimed === undefined || !compared.has(claimed)) continue
      const owner = owners.get(claimed)
      const known = tailer ? tailer.known : entry!
      if (owner !== subject && !(owner?.entry && wasCopyAhead(owner.entry, known))) this.#setClaim(subject, undefined)
    }
  }

  /** Called when no copy has the rest of a closed file. */
  #over(tailer: Tailer, folder: Folder): void {
    if (tailer.isOpen || tailer.copy) return
    tailer.isMissing = folder.byKey.get(tailer.key)?.path !== tailer.path
    tailer.wasLookedFor()
    const { head, birth, size, truncatedSince, origin, path } = tailer
    if (this.#unexaminedOf(origin.path ?? path).length > 0) return
    const wasOpened = head.bytes > 0 || truncatedSince !== undefined
    // An empty file may have been written, compressed and removed since the last look.
    const mayHaveBytes = size > 0 || !folder.byKey.has(tailer.key)
    if (!wasOpened && mayHaveBytes && this.#seekUnopened(origin.path ?? path, birth, folder)) {
      this.#options.files.forget(tailer)
      return
    }
    // The rest of the line may be in a copy that cannot be read now.
    if (tailer.truncatedSince !== undefined && tailer.pending > 0 && !this.mayHideRestOf(tailer))
      this.#options.onEnd(tailer)
    this.#options.files.retire(tailer)
  }

  #lose(entry: Entry, folder: Folder): void {
    if (!this.#isCurrent(entry)) return
    if (this.#unexaminedOf(nameOf(entry)).length > 0) {
      this.#hidden.addUnopened(entry)
      return
    }
    const isHidden =
      entry.away === undefined && this.#hidden.mayHideRestOf(entry, ofEntry(entry, this.#options.saved.lookedAt))
    const isLost = !isHidden && (entry.size ?? 0) > entry.offset && entry.away === undefined
    if (!isLost || !existsSync(folder.path)) return
    const isSought = entry.head.bytes === 0 && this.#seekUnopened(nameOf(entry), BigInt(entry.birth), folder)
    if (!isSought) this.#reportLost(entry)
  }

  /**
   * Looks for a copy of a file that was never opened. Any compressed file that was made after the birth of this file
   * may be its copy. Returns whether such a compressed file exists.
   */
  #seekUnopened(name: string, birth: bigint, { listed, owners }: Folder): boolean {
    if (birth === 0n) return false
    const since = Number(birth) / 1e6
    const mayBe = ({ name: found, stat: { birthtimeNs, mtimeNs, uid } }: Listed) =>
      formatOfName(found) !== undefined &&
      isRotatedName(found, basename(name)) &&
      owners.allow(basename(name), uid) &&
      Number(birthtimeNs || mtimeNs) / 1e6 >= since - CLOCK_MS
    if (!listed.some(mayBe)) return false
    this.unseen.displaced(name, since)
    return true
  }

  #reportLost(entry: Entry): void {
    const { offset, size = 0, gone } = entry
    const { losses, saved, context } = this.#options
    // The copy of this file is gone, too, and another file may have the inode of the copy.
    saved.replace(entry, { ...entry, away: context.clock.wall(), claimed: undefined })
    context.checkpoints.changed()
    const what = gone ? 'was truncated' : 'is gone'
    const msg = `file ${what} before it was read to its end, and no copy has the rest. The position is kept for a week in case the file reappears`
    const kind = gone ? 'truncated' : 'vanished'
    losses.report({ file: nameOf(entry), bytes: size - offset, since: saved.lookedAt, kind, msg })
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

  /** Whether a file that cannot be read may hold the rest of the tailer's file. */
  mayHideRestOf(tailer: Tailer): boolean {
    return this.#hidden.mayHide(dirname(tailer.path), ofTailer(tailer))
  }

  /** `left`: the files that nothing has claimed. Those that are read now leave it. */
  #readUnseen(
    name: string,
    rests: readonly Place[],
    left: Map<string, Place>,
    unreadable: readonly Unreadable[],
    now: number,
  ): void {
    const since = this.unseen.since(name)
    for (const path of this.#unexaminedOf(name)) this.unseen.noteUnreadable(path, name)
    const unclaimed = rests.filter(({ key }) => left.has(key))
    const places = this.unseen.of(name, unclaimed, unreadable, now)
    if (!places) return
    try {
      for (const place of places) {
        left.delete(place.key)
        if (!this.#rests.readUnseen(name, place)) this.unseen.displaced(name, since)
      }
    } catch (error) {
      this.unseen.displaced(name, since)
      throw error
    }
  }
}

function leave(tailer: Tailer): void {
  tailer.isMissing = true
  tailer.wasLookedFor()
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
