import type { BigIntStats } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { SourceContext } from '../../../core/component.js'
import { errorCode } from '../../../core/errors.js'
import { existsSync, statOrNone, unlessSilent, withFile } from '../../../lib/files/disk/disk.js'
import { SilentFileSystem } from '../../../lib/files/disk/file-systems.js'
import { formatOfName } from '../compression.js'
import {
  type BirthTimes,
  COPY_ONLY,
  FINGERPRINT_BYTES,
  fingerprint,
  fingerprintAt,
  keyOf,
  leadsTo,
  NO_BYTES,
  same,
} from '../identity.js'
import type { OpenFiles } from '../open-files.js'
import { openWithinSync } from '../opening.js'
import type { PathProblems } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import { type Entry, entryKey, type Saved } from '../saved.js'
import type { Slices } from '../slices.js'
import {
  Candidates,
  type CandidatesOptions,
  type Compressed,
  isCompressed,
  type Listed,
  list,
  type Place,
  type Unreadable,
} from './candidates.js'
import { Copy } from './copy.js'
import { Hidden } from './hidden.js'
import { Slots } from './inflated.js'
import type { Losses } from './losses.js'
import { assign, type Claim } from './match.js'
import { compareAge, isRotatedName, mayBecome, stemOf } from './names.js'
import { Newcomers, type Other, originalsOf } from './newcomers.js'
import { CLOCK_MS, nameOf, ofEntry, ofTailer, type Subject } from './subjects.js'
import { Unseen } from './unseen.js'

export interface SearchOptions {
  readonly context: SourceContext
  readonly saved: Saved
  readonly problems: PathProblems
  readonly births: BirthTimes
  readonly losses: Losses
  readonly files: OpenFiles
  /** Called when the file may have more to read. */
  onReady(tailer: Tailer): void
  /** Called when no more bytes will come: the rest of the last line is delivered. */
  onEnd(tailer: Tailer): void
}

/** A byte of gzip inflates to no more than this. The size of a damaged file may say more. */
const MOST_INFLATED = 1032

type Claimed = Claim<Subject, Place>

/** One folder in one search. */
interface Folder {
  readonly path: string
  readonly listed: readonly Listed[]
  readonly stamp: string
  readonly byKey: ReadonlyMap<string, Listed>
  /** Entries and tailers whose file was found, or resumed. */
  readonly there: Set<Entry | Tailer>
}

/**
 * Finds files that were renamed, copied or compressed, and files that came and went between two sweeps. Each folder is
 * listed once; then every known file claims at most one of the others (match.ts), and what follows is done at once.
 */
export class Search {
  readonly candidates: Candidates
  readonly newcomers: Newcomers
  readonly unseen: Unseen
  /** Files that come after those that are searched for. */
  delays: ReadonlySet<Tailer> = new Set()
  readonly #options: SearchOptions
  readonly #opening: CandidatesOptions
  /** Folders that changed during their search. */
  #again = new Set<string>()
  readonly #hidden: Hidden

  constructor(options: SearchOptions) {
    this.#options = options
    const { context } = options
    const open = (path: string) => openWithinSync(context.reach, path)
    this.#opening = { ...options, clock: context.clock, slots: new Slots(), open }
    this.candidates = new Candidates(this.#opening)
    this.#hidden = new Hidden(options.problems)
    this.newcomers = new Newcomers({
      ...options,
      clock: context.clock,
      candidates: this.candidates,
      others: () => this.#others(),
      isSettled: path => this.unseen.isSettled(path),
      open,
    })
    this.unseen = new Unseen(options)
  }

  *#others(): Iterable<Other> {
    for (const { path, origin, head, trail } of this.#options.files.tailers)
      yield { path, name: origin.path!, head, trail }
    for (const entry of this.#options.saved.entries()) yield { path: entry.path, name: nameOf(entry), head: entry.head }
  }

  /** Whether a search waits for files that change now. */
  get isWaiting(): boolean {
    return this.unseen.names.size > 0 || this.#again.size > 0
  }

  /** Whether all folders were searched completely. */
  get isComplete(): boolean {
    return this.#again.size === 0
  }

  /** Whether the compressed file is there that has what was read, or may have. */
  isKept = (entry: Entry): boolean =>
    this.#hidden.has(entry) || (entry.claimed !== undefined && this.candidates.has(dirname(entry.path), entry.claimed))

  /** Remembers a file that cannot be opened now. It is read when it can be, also under another name. */
  noteUnopened(path: string, stat: BigIntStats): void {
    const { saved, births, context } = this.#options
    this.#hidden.addUnopened(stat)
    const size = Number(stat.size)
    const known = saved.knows(stat, births) ? saved.find(stat.dev, stat.ino, path) : undefined
    if (known && (known.size ?? 0) >= size) return
    saved.put({
      path,
      ...identityOf(stat),
      offset: 0,
      continues: false,
      head: NO_BYTES,
      tail: NO_BYTES,
      ...known,
      size,
    })
    context.checkpoints.changed()
  }

  /**
   * Searches the folders of the `closed` files, which the sweep did not find, and those in which something changed.
   * `isThorough`: also for all files with a position. `now`: wall clock in milliseconds.
   */
  async run(closed: readonly Tailer[], isThorough: boolean, now: number, slices: Slices): Promise<void> {
    this.unseen.begin()
    for (const folder of this.#hidden.uncovered()) this.#again.add(folder)
    this.newcomers.begin()
    this.#hidden.begin(isThorough)
    const entries = this.#options.saved.byFolder()
    const paths = this.#folders(closed, isThorough, entries)
    this.#again = new Set()
    const delays = new Set<Tailer>()
    this.delays = delays
    try {
      const folders: Folder[] = []
      for (const path of paths) folders.push(await this.#locate(path, entries.get(path) ?? [], closed, slices))
      // Files that were found under other names may be truncated.
      const positions = this.#options.saved.byFolder()
      for (const folder of folders) await this.#decide(folder, positions, closed, now, slices)
      for (const tailer of this.unseen.delayed()) delays.add(tailer)
      if (!this.isWaiting) this.unseen.isStarting = false
      const isUsed = { has: (folder: string) => positions.has(folder) || paths.has(folder) }
      this.candidates.keep(isUsed)
      this.#hidden.keep(isUsed)
    } catch (error) {
      for (const path of paths) this.#again.add(path)
      throw error
    } finally {
      this.candidates.close()
    }
  }

  #folders(
    closed: readonly Tailer[],
    isThorough: boolean,
    entries: ReadonlyMap<string, readonly Entry[]>,
  ): ReadonlySet<string> {
    const folders = new Set(this.#again)
    for (const { path, target } of closed) folders.add(dirname(path)).add(dirname(target))
    for (const path of this.unseen.names) folders.add(dirname(path))
    for (const folder of this.newcomers.folders) folders.add(folder)
    for (const [folder, list] of entries) if (isThorough || this.#hidden.hasUnopened(list)) folders.add(folder)
    return folders
  }

  /** Finds files that still exist under another name, and resumes those that grew. */
  async #locate(path: string, entries: readonly Entry[], closed: readonly Tailer[], slices: Slices): Promise<Folder> {
    const { births, files, context } = this.#options
    const above = statOrNone(path)
    if (above) births.learn(above)
    const listed = await list(path, slices)
    const there = new Set<Entry | Tailer>()
    const byKey = new Map(listed.map(one => [keyOf(one.stat), one]))
    const grown: { one: Listed; entry: Entry }[] = []
    for (const entry of entries) {
      const one = entry.gone ? undefined : byKey.get(entryKey(entry))
      if (!one || Number(one.stat.size) < entry.offset || births.differ(one.stat, BigInt(entry.birth))) continue
      if (!mayBecome(entry.path, one.path)) continue
      there.add(entry)
      if (Number(one.stat.size) > entry.offset) grown.push({ one, entry })
    }
    // Of several files that had a name, the oldest is read first.
    grown.sort((a, b) => Number(a.one.stat.mtimeNs - b.one.stat.mtimeNs) || compareAge(a.one.path, b.one.path))
    for (const { one, entry } of grown) this.#resume(one.path, entry)
    for (const tailer of closed) {
      if (dirname(tailer.path) !== path && dirname(tailer.target) !== path) continue
      const one = byKey.get(tailer.key)
      if (!one || tailer.isOpen || births.differ(one.stat, tailer.birth) || !mayBecome(tailer.path, one.path)) continue
      const { path: name, found } = tailer
      tailer.path = tailer.found = one.path
      if (!tailer.look(Number(one.stat.size), one.stat.mtimeNs)) continue
      there.add(tailer)
      if (!files.open(tailer)) tailer.awaySince = context.clock.now()
      else if (births.kept(one.stat) || tailer.verify()) goOn(tailer, one.path, this.#options)
      else {
        // It is forgotten under the names that it has.
        Object.assign(tailer, { path: name, found })
        files.forget(tailer)
      }
    }
    return { path, listed, byKey, stamp: stampOf(listed), there }
  }

  #resume(path: string, entry: Entry): void {
    try {
      const tailer = this.#options.files.adopt(path, 'plain', entry)
      if (!tailer) return
      this.#options.files.precede(nameOf(entry), tailer)
      goOn(tailer, path, this.#options)
    } catch (error) {
      this.#failed(path, error)
      this.#hidden.addUnopened(entry)
    }
  }

  /** Assigns the files of a folder to those that are known, and does what follows from it. */
  async #decide(
    folder: Folder,
    entries: ReadonlyMap<string, readonly Entry[]>,
    closed: readonly Tailer[],
    now: number,
    slices: Slices,
  ): Promise<void> {
    const { path } = folder
    const sought = closed.filter(tailer => dirname(tailer.path) === path && !tailer.isOpen && !folder.there.has(tailer))
    const missing = (entries.get(path) ?? []).filter(entry => !folder.there.has(entry) && this.#isCurrent(entry))
    const { files } = this.#options
    const isKnown = ({ path, stat }: Listed) => files.isRead(stat, path) || files.isSaved(stat, path)
    const names = this.unseen.namesIn(path, folder.listed, isKnown)
    const hasNew = this.newcomers.in(path).length > 0
    if (sought.length + missing.length + names.length === 0 && !hasNew) return
    this.#checkOpen(this.#originalsIn(path, names))
    const originals = this.#originalsIn(path, names)
    const others = folder.listed.filter(one => !isKnown(one))
    const wanted = this.#wantedIn(folder, sought, missing)
    const isNew = (one: Listed) => this.newcomers.has(one.path)
    const { places, unreadable } = await this.candidates.of(path, others, wanted, isNew, slices)
    this.#hidden.setUnreadable(path, unreadable)
    const reading = this.#readingIn(path)
    const free = places.filter(one => !reading.has(stateOf(one)))
    const claims = await this.#assign(this.#subjectsIn(folder, missing), free, slices)
    if (!claims) {
      this.#again.add(path)
      return
    }
    const later = await list(path, slices)
    // A file that is renamed during a search may be found under neither name.
    const isSame = stampOf(later) === folder.stamp
    this.#apply(claims, new Set([...sought, ...missing]), isSame)
    if (isSame) {
      for (const tailer of sought) this.#over(tailer)
      for (const entry of missing) if (!claims.some(({ file }) => file.entry === entry)) this.#lose(entry, folder)
    }
    const open = claims.flatMap(({ file: { tailer } }): [undefined, Tailer][] => (tailer ? [[undefined, tailer]] : []))
    const byPlace = new Map(claims.map(claim => [claim.candidate.key, claim.file]))
    const unclaimed = free.filter(({ key }) => !byPlace.has(key))
    const originalsNow = this.#originalsIn(path, names)
    // While files were compared, the reader may have found that one was truncated.
    const areTold =
      [...originals].every(([name, tailer]) => originalsNow.get(name) === tailer) &&
      this.#checkOpen([...originalsNow, ...open.filter(([, { fd }]) => fd !== undefined)])
    // A copy may be made, and its original truncated, while they are compared.
    const sizes = new Map(later.map(({ stat }) => [keyOf(stat), stat.size]))
    if (!isSame || !areTold || unclaimed.some(({ key, stat }) => sizes.get(key) !== stat.size)) {
      this.#again.add(path)
      return
    }
    for (const name of names) this.#readUnseen(name, unclaimed, unreadable, now)
    const readingNow = this.#readingIn(path)
    const readers = new Map(places.map(one => [one.key, readingNow.get(stateOf(one))]))
    const copyOf = (key: string) => {
      const { tailer = readers.get(key), entry } = byPlace.get(key) ?? {}
      return tailer?.origin.path ?? (entry && nameOf(entry))
    }
    const inflate = (stat: BigIntStats) => {
      const place = unclaimed.find(({ key }) => key === keyOf(stat))
      if (!place || !isCompressed(place) || place.stat.size !== stat.size) return false
      if (!this.#isKnownByLink(place)) this.#inflate(place.path, place)
      return true
    }
    await this.newcomers.takeUp(path, copyOf, folder.byKey, inflate, slices)
  }

  /** The open files whose copies may be here, by their names. */
  #originalsIn(folder: string, names: readonly string[]): ReadonlyMap<string, Tailer> {
    const found = new Map<string, Tailer>()
    for (const name of [...names, ...this.newcomers.in(folder).flatMap(originalsOf)]) {
      const tailer = this.#options.files.named(name)
      if (tailer && !tailer.copy) found.set(name, tailer)
    }
    return found
  }

  /** Notices truncations of these files. Returns whether there were none, and all still have their names. */
  #checkOpen(named: Iterable<[name: string | undefined, Tailer]>): boolean {
    const { files } = this.#options
    let areSame = true
    for (const [name, tailer] of named) {
      if (!files.open(tailer) || tailer.fd === undefined) continue
      // If it was just renamed, the files found may have had the name after it.
      if (tailer.hasPortion || (name !== undefined && !leadsTo(name, tailer.key))) areSame = false
      else if (!tailer.holds()) {
        files.truncated(tailer)
        areSame = false
      }
    }
    return areSame
  }

  /** Whether a plain file is looked at: by its name it may be a copy, or it is new. */
  #wantedIn({ path }: Folder, sought: readonly Tailer[], missing: readonly Entry[]): (one: Listed) => boolean {
    const stems = new Set<string>()
    const add = (name: string) => stems.add(stemOf(name))
    for (const { origin, path } of sought) for (const name of [origin.path ?? path, path]) add(basename(name))
    for (const entry of missing) for (const name of [nameOf(entry), entry.path]) add(basename(name))
    for (const name of this.unseen.names) if (dirname(name) === path) add(basename(name))
    return ({ name, path }) => {
      if (this.newcomers.has(path)) return true
      for (let end = 1; end <= name.length; end++) if (stems.has(name.slice(0, end))) return true
      return false
    }
  }

  /** The files that are read from compressed copies, by those. */
  #readingIn(folder: string): ReadonlyMap<string, Tailer> {
    const reading = new Map<string, Tailer>()
    for (const tailer of this.#options.files.tailers)
      if (tailer.copy && dirname(tailer.path) === folder) reading.set(stateOf(tailer.copy), tailer)
    return reading
  }

  #subjectsIn({ path, there, byKey }: Folder, missing: readonly Entry[]): Subject[] {
    const subjects: Subject[] = []
    for (const tailer of this.#options.files.tailers) {
      if (dirname(tailer.path) !== path || tailer.copy) continue
      // Its copies have what was written to it since the sweep looked at it.
      if (tailer.fd !== undefined && tailer.at === 0 && tailer.head.bytes < FINGERPRINT_BYTES) tailer.holds()
      const there = byKey.get(tailer.key)
      const isIt = there && mayBecome(tailer.path, there.path) && !this.#options.births.differ(there.stat, tailer.birth)
      subjects.push(ofTailer(tailer, isIt ? there : undefined))
    }
    const { lookedAt } = this.#options.saved
    const entries = [...there].filter(one => 'offset' in one)
    for (const entry of entries)
      if (this.#isCurrent(entry)) subjects.push(ofEntry(entry, lookedAt, byKey.get(entryKey(entry))))
    for (const entry of missing) if (this.#isCurrent(entry)) subjects.push(ofEntry(entry, lookedAt))
    return subjects
  }

  #isCurrent(entry: Entry): boolean {
    return this.#options.saved.get(entryKey(entry)) === entry
  }

  /** Undefined if a compressed file must be inflated further. */
  async #assign(
    subjects: readonly Subject[],
    places: readonly Place[],
    slices: Slices,
  ): Promise<Claimed[] | undefined> {
    const run = assign(subjects, places)
    for (let step = run.next(); ; ) {
      if (step.done) return step.value
      if (slices.due) await slices.pause()
      const question = step.value
      let answered = this.candidates.answer(question)
      if (!answered) {
        const isOver = await this.candidates.inflate(question)
        slices.restart()
        answered = isOver ? this.candidates.answer(question) : undefined
        if (!answered) return undefined
      }
      step = run.next(answered.answer)
    }
  }

  /** Reads on in copies, the oldest first. */
  #apply(claims: readonly Claimed[], sought: ReadonlySet<Entry | Tailer>, isSure: boolean): void {
    for (const { file, candidate, relation } of [...claims].sort(
      (a, b) => a.candidate.changedAt - b.candidate.changedAt,
    )) {
      const { tailer, entry } = file
      if (tailer ? !sought.has(tailer) || tailer.isOpen : !sought.has(entry!) || !this.#isCurrent(entry!)) continue
      const isRest = relation === 'rest' || (relation === 'whole' && !candidate.isCompressed)
      if (!isRest && !isSure) continue
      if (tailer) this.#found(tailer, candidate, isRest)
      else if (isRest) this.#readOn(entry!, candidate)
      else if (!candidate.isCompressed) this.#putEnd(candidate, nameOf(entry!))
      if (entry && !isRest) this.#options.saved.replace(entry, { ...entry, claimed: candidate.key })
    }
  }

  #found(tailer: Tailer, place: Place, isRest: boolean): void {
    const { files, onReady, context } = this.#options
    if (isRest) {
      const copy = isCompressed(place) ? this.#copyOf(place, tailer.at) : undefined
      if (!files.readOn(tailer, copy ?? place)) {
        this.#again.add(dirname(place.path))
        return
      }
      tailer.claimed = place.key
      report(tailer, place, context)
      tailer.awaySince = context.clock.now()
      tailer.wasLookedFor()
      onReady(tailer)
      return
    }
    tailer.claimed = place.key
    if (!place.isCompressed) this.#putEnd(place, tailer.origin.path!)
  }

  #copyOf(place: Compressed, offset: number): Copy {
    return new Copy(place, this.#opening, this.candidates.take(place.stat, offset))
  }

  /** Remembers a plain copy of what was read, so that it is known if it grows. */
  #putEnd({ path, stat, size, first }: Place, file: string): void {
    const head = fingerprint(first, 0, first.length)
    const tail = withFile(path, fd => fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size)) ?? NO_BYTES
    // Its modification time decides how long its position is kept.
    const away = Number(stat.mtimeNs) / 1e6
    const position = { offset: size, continues: false, head, tail, claimed: keyOf(stat) }
    this.#options.saved.put({ path, file, ...identityOf(stat), ...position, away })
  }

  /** No copy has the rest of a file that is closed. */
  #over(tailer: Tailer): void {
    if (tailer.isOpen || tailer.copy) return
    tailer.wasLookedFor()
    if (tailer.truncatedSince !== undefined && tailer.pending > 0) this.#options.onEnd(tailer)
    this.#options.files.retire(tailer)
  }

  #lose(entry: Entry, { path, listed }: Folder): void {
    if (!this.#isCurrent(entry)) return
    const isHidden =
      entry.away === undefined && this.#hidden.mayHideRestOf(entry, ofEntry(entry, this.#options.saved.lookedAt))
    const isLost = !isHidden && (entry.size ?? 0) > entry.offset && entry.away === undefined
    if (!isLost || !existsSync(path)) return
    // Any compressed file that was made since may be that of one that was never opened.
    const since = entry.head.bytes === 0 ? this.#birthOf(entry, path) : undefined
    const mayBe = ({ name, stat }: Listed) =>
      formatOfName(name) !== undefined &&
      isRotatedName(name, basename(nameOf(entry))) &&
      Number(stat.birthtimeNs) / 1e6 >= since! - CLOCK_MS
    if (since !== undefined && listed.some(mayBe)) this.unseen.displaced(nameOf(entry), since)
    else this.#reportLost(entry)
  }

  /** Wall clock in milliseconds; undefined if it is not known. */
  #birthOf({ birth }: Entry, folder: string): number | undefined {
    const stat = statOrNone(folder)
    return stat && this.#options.births.kept(stat) ? Number(birth) / 1e6 : undefined
  }

  /** Reports the unread rest of a missing file as lost. */
  #reportLost(entry: Entry): void {
    const { offset, size = 0, gone } = entry
    const { losses, saved, context } = this.#options
    saved.replace(entry, { ...entry, away: context.clock.wall() })
    context.checkpoints.changed()
    const what = gone ? 'was truncated' : 'is gone'
    const msg = `file ${what} before it was read to its end, and no copy has the rest. Its position is kept for a week in case it reappears`
    const kind = gone ? 'truncated' : 'vanished'
    losses.report({ file: nameOf(entry), bytes: size - offset, since: saved.lookedAt, kind, msg })
  }

  /** Whether a file that cannot be read may have the rest of the file of a tailer. */
  mayHideRestOf(tailer: Tailer): boolean {
    return this.#hidden.mayHide(dirname(tailer.path), ofTailer(tailer))
  }

  /** Reads all unseen files of a name, the oldest first. */
  #readUnseen(name: string, unclaimed: Place[], unreadable: readonly Unreadable[], now: number): void {
    const since = this.unseen.since(name)
    const places = this.unseen.of(name, unclaimed, unreadable, now)
    if (!places) return
    try {
      for (const place of places) {
        unclaimed.splice(unclaimed.indexOf(place), 1)
        if (!this.#beginUnseen(name, place)) this.unseen.displaced(name, since)
      }
    } catch (error) {
      this.unseen.displaced(name, since)
      throw error
    }
  }

  /** False: it was just renamed, and must be found again. */
  #beginUnseen(name: string, place: Place): boolean {
    const { path, stat, first } = place
    if (isCompressed(place)) {
      this.#inflate(name, place)
      return true
    }
    const head = fingerprint(first, 0, first.length)
    const position = { offset: 0, continues: false, head, tail: NO_BYTES }
    return this.#begin(path, { path, file: name, ...identityOf(stat), ...position, size: Number(stat.size) })
  }

  /** Whether the compressed file is or was read under another name: it may have several, also in other folders. */
  #isKnownByLink(place: Compressed): boolean {
    for (const { copy } of this.#options.files.tailers) if (copy && stateOf(copy) === stateOf(place)) return true
    for (const { claimed, dev, birth, head } of this.#options.saved.entries())
      if (
        claimed === place.key &&
        dev === COPY_ONLY.dev &&
        birth === birthOf(place) &&
        same(head, place.head(head.bytes))
      )
        return true
    return false
  }

  /** Reads a compressed file from its beginning. Its events have this name. */
  #inflate(name: string, place: Compressed): void {
    const { files, context, onReady } = this.#options
    const { path, stat, first, size } = place
    const entry: Entry = {
      path: name,
      ...COPY_ONLY,
      birth: birthOf(place),
      offset: 0,
      continues: false,
      head: fingerprint(first, 0, first.length),
      tail: NO_BYTES,
      ...(size <= MOST_INFLATED * Number(stat.size) && { size }),
      gone: true,
    }
    const tailer = files.adoptCopy(entry, this.#copyOf(place, 0))
    tailer.claimed = place.key
    if (name === path) context.log.info({ file: path }, 'reading a compressed file')
    else {
      files.precede(name, tailer)
      context.log.info({ file: name, copy: path }, 'reading a rotated file that was not seen before')
    }
    onReady(tailer)
  }

  #readOn(entry: Entry, place: Place): void {
    const { files, onReady, context, saved } = this.#options
    const file = nameOf(entry)
    if (isCompressed(place)) {
      const tailer = files.adoptCopy(entry, this.#copyOf(place, entry.offset))
      tailer.claimed = place.key
      files.precede(file, tailer)
      context.log.debug({ file, copy: place.path }, 'file is gone; searching a compressed copy for its rest')
      onReady(tailer)
      return
    }
    const { path, stat } = place
    const { gone: _gone, size: _size, ...rest } = entry
    const moved = { ...rest, path, file, ...identityOf(stat), claimed: place.key }
    saved.remove(entry)
    if (stat.size <= BigInt(entry.offset)) saved.put(moved)
    else if (!this.#begin(path, moved, entry)) this.#again.add(dirname(path))
  }

  /** Reads a file from the position of the entry. `former` is restored if its file system does not respond. */
  #begin(path: string, entry: Entry, former?: Entry): boolean {
    const { saved, files, context } = this.#options
    const file = nameOf(entry)
    saved.put(entry)
    try {
      const tailer = files.adopt(path, 'plain', entry)
      if (!tailer) return false
      files.precede(file, tailer)
      const { offset } = entry
      context.log.info({ file, now: path, offset }, 'reading the rest of a rotated file')
      follow(tailer, path, this.#options)
      return true
    } catch (error) {
      if (error instanceof SilentFileSystem) {
        saved.remove(entry)
        if (former) saved.put(former)
      }
      return this.#failed(path, error)
    }
  }

  /** Returns whether it is known what became of the file. */
  #failed(path: string, error: unknown): boolean {
    unlessSilent(error)
    // It was just renamed.
    if (errorCode(error) === 'ENOENT') {
      this.#again.add(dirname(path))
      return false
    }
    this.#options.problems.failed(path, 'open', error)
    return true
  }
}

/** Identifies a compressed file: its inode may be given to another one. */
function stateOf({ key, birth, changedAt }: Pick<Place, 'key' | 'birth' | 'changedAt'>): string {
  return `${key}@${birth ?? changedAt}`
}

/** What stands for the birth time of a file only seen as a compressed copy. */
function birthOf({ changedAt }: Place): string {
  return String(Math.round(changedAt * 1e6))
}

/** Reads the rest of a file that was renamed. */
export function goOn(tailer: Tailer, path: string, options: Pick<SearchOptions, 'context' | 'onReady'>): void {
  options.context.log.info({ file: tailer.origin.path, now: path }, 'file was renamed; reading its rest')
  follow(tailer, path, options)
}

function follow(tailer: Tailer, path: string, { context, onReady }: Pick<SearchOptions, 'context' | 'onReady'>): void {
  tailer.path = path
  tailer.found = path
  tailer.awaySince = context.clock.now()
  onReady(tailer)
}

function report({ origin, unread, at }: Tailer, place: Place, { log }: SourceContext): void {
  const fields = { file: origin.path, copy: place.path, offset: at, unread_bytes: unread }
  if (place.isCompressed) log.info(fields, 'file is gone; searching a compressed copy for its rest')
  else if (unread > 0) log.info(fields, 'reading the rest of a truncated file from its copy')
  else log.debug(fields, 'the copy of a truncated file was read to its end')
}

function identityOf({ dev, ino, birthtimeNs }: BigIntStats): Pick<Entry, 'dev' | 'ino' | 'birth'> {
  return { dev: String(dev), ino: String(ino), birth: String(birthtimeNs) }
}

function stampOf(listed: readonly Listed[]): string {
  return listed
    .map(({ name, stat }) => `${name}/${keyOf(stat)}`)
    .sort()
    .join('/')
}
