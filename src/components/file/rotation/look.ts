import type { BigIntStats } from 'node:fs'
import { basename } from 'node:path'
import { lacksDescriptor } from '../../../core/errors.js'
import { existsSync, lstatSync, orNone, unlessSilent, withFile } from '../../../lib/files/disk/disk.js'
import type { TimeSlices } from '../../../lib/time-slices.js'
import { FINGERPRINT_BYTES, firstBytes, leadsTo } from '../identity.js'
import { isOfSystem } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import { type Displaced, type Entry, entryKey } from '../saved.js'
import {
  type Candidates,
  type CandidatesOptions,
  compressedIdentity,
  list,
  listedOf,
  type Place,
} from './candidates.js'
import type { Hidden } from './hidden.js'
import { assign, type Claim } from './match.js'
import { stemOf, stemsWithin } from './names.js'
import { type Newcomers, originalsOf } from './newcomers.js'
import { type Listed, Owners } from './owners.js'
import { type Looked, type PossibleOriginal, splitNames } from './plan.js'
import type { SearchOptions } from './search-options.js'
import { nameOfEntry, ofEntry, ofTailer, type Subject } from './subjects.js'
import type { Unseen } from './unseen.js'

interface LookOptions extends SearchOptions, CandidatesOptions {
  readonly candidates: Candidates
  readonly hidden: Hidden
  readonly newcomers: Newcomers
  readonly unseen: Unseen
}

/** The files of a folder. */
export interface Folder extends Pick<Looked, 'listed' | 'byKey' | 'isListed' | 'unexamined' | 'owners'> {
  readonly path: string
  /** The new files that waited when the folder was listed. */
  readonly waiting: readonly string[]
  /** The entries and tailers whose file was found or resumed. */
  readonly there: Set<Entry | Tailer>
}

/** A new file that waits, and its first bytes; undefined if they cannot be read. */
export interface WaitingFile {
  readonly path: string
  readonly stat: BigIntStats
  readonly first: Buffer | undefined
}

/** What comparing the files of a folder showed. */
export interface FolderComparison extends Looked {
  /** The places that are not being read, and that no known file claims, by key. */
  readonly unclaimed: ReadonlyMap<string, Place>
  /** The file that claims a place, by the key of the place. */
  readonly claimed: ReadonlyMap<string, Subject>
  /** The keys of the unknown files that were compared with all known files. */
  readonly compared: ReadonlySet<string>
  /** The keys of the unknown files that may be read, and must not change. */
  readonly unknown: ReadonlySet<string>
  readonly waiting: readonly WaitingFile[]
  /** By key. */
  readonly places: ReadonlyMap<string, Place>
}

/** What a look at a folder showed. */
export interface FolderSnapshot extends Folder {
  /** The keys of the known files that the folder does not have any more. */
  readonly gone: ReadonlySet<string>
  /** The displaced names that an unknown file may have had, and the others. */
  readonly names: readonly Displaced[]
  readonly over: readonly Displaced[]
  /** The files that may have copies in this folder, by name. */
  readonly originals: ReadonlyMap<string, PossibleOriginal & { readonly tailer: Tailer }>
  /** Undefined if nothing was compared, or a file must be inflated further or opened later. */
  readonly comparison: FolderComparison | undefined
  /** Whether there was nothing to compare. */
  readonly isIdle: boolean
  isWanted(one: Listed): boolean
}

/** Lists folders, examines their files, and reads the bytes that show which of them are copies. */
export class Look {
  readonly #options: LookOptions

  constructor(options: LookOptions) {
    this.#options = options
  }

  /** Returns undefined if the folder cannot be listed now because the process lacks descriptors. */
  async list(path: string, entries: Iterable<Entry>, slices: TimeSlices): Promise<Folder | undefined> {
    const { newcomers, files } = this.#options
    const waiting = newcomers.in(path)
    const found = await this.#list(path, waiting, slices)
    if (!found) return undefined
    const owners = new Owners()
    await slices.each(files.in(path), ({ origin, path: at, uid }) => owners.add(uid, origin.path ?? at, at))
    await slices.each(entries, entry => owners.add(entry.uid, nameOfEntry(entry), entry.path))
    const byKey = new Map<string, Listed>()
    await slices.each(found.listed, one => byKey.set(one.key, one))
    return { path, ...found, byKey, waiting, there: new Set(), owners }
  }

  /** If the folder cannot be listed, finds only the known files and the new files that wait. */
  async #list(
    path: string,
    waiting: readonly string[],
    slices: TimeSlices,
  ): Promise<Pick<Folder, 'listed' | 'isListed' | 'unexamined'> | undefined> {
    const { files, problems } = this.#options
    const unexamined = new Set<string>()
    try {
      return { listed: await list(path, slices, unexamined), isListed: true, unexamined }
    } catch (error) {
      unlessSilent(error)
      problems.failed(path, 'list', error)
      if (lacksDescriptor(error)) return undefined
      const names = new Set([...waiting, ...Array.from(files.in(path), one => one.path)].map(path => basename(path)))
      return { listed: await listedOf(path, names, slices), isListed: false, unexamined }
    }
  }

  /** Compares the files of a folder. Returns undefined if there is nothing to decide. */
  async at(
    folder: Folder,
    sought: readonly Tailer[],
    missing: readonly Entry[],
    slices: TimeSlices,
  ): Promise<FolderSnapshot | undefined> {
    const others = await this.#othersIn(folder, slices)
    const { names, over } = await splitNames(this.#options.unseen.in(folder.path), others, slices)
    const isIdle = sought.length + missing.length + names.length + folder.waiting.length === 0
    if (isIdle && over.length === 0) return undefined
    const isWanted = await this.#wantedIn(folder, sought, missing, slices)
    const originals = await this.#originalsIn(folder, names, slices)
    const comparison = isIdle
      ? undefined
      : await this.#compare(folder, sought, missing, others, isWanted, originals, slices)
    const gone = new Set([...sought.map(({ key }) => key), ...missing.map(entryKey)])
    return { ...folder, gone, names, over, originals, comparison, isIdle, isWanted }
  }

  /**
   * Whether all is still as the look found it. While files are compared, a copy may be made and its original truncated,
   * or an empty copy may get its content. If a file is renamed while its folder is listed, the list may contain neither
   * of its two names. Other files of the folder may change all the time.
   */
  async isStill(snapshot: FolderSnapshot, slices: TimeSlices): Promise<boolean> {
    const { path, listed, isListed, waiting, gone, comparison, originals, isWanted } = snapshot
    const later = await this.#list(path, waiting, slices)
    if (later?.isListed !== isListed) return false
    const stampOf = async (files: readonly Listed[]) => {
      const stamp = new Map<string, string>()
      await slices.each(files, one => {
        const { key, name, stat } = one
        if (comparison?.unknown.has(key)) stamp.set(name, `${key}/${stat.size}`)
        else if (gone.has(key) || isWanted(one)) stamp.set(name, key)
      })
      return stamp
    }
    const [before, after] = [await stampOf(listed), await stampOf(later.listed)]
    const isSame = before.size === after.size && [...before].every(([name, state]) => after.get(name) === state)
    const open = (comparison?.claims ?? []).flatMap(({ file: { tailer } }) =>
      tailer?.fd === undefined ? [] : [tailer],
    )
    return (await this.#areWhole(originals, open, slices)) && isSame
  }

  /** The files of the folder that are not known. Leaves out rotated files of other users, and reports them. */
  async #othersIn({ path, listed, owners }: Folder, slices: TimeSlices): Promise<Listed[]> {
    const { files, problems, newcomers, saved } = this.#options
    const others: Listed[] = []
    const foreign: { readonly file: string }[] = []
    await slices.each(listed, one => {
      if (files.isRead(one.path, one.stat)) return
      // A file that could never be opened may be a copy.
      const known = files.isSaved(one.stat, one.path) && saved.known(one.stat)
      if (known && (known.head.bytes > 0 || !known.size)) return
      if (newcomers.has(one.path) || (owners.mayBeCopy(one) && isOwnLink(one, owners))) others.push(one)
      else foreign.push(...owners.describe(one))
    })
    problems.foreign(path, foreign)
    return others
  }

  /** Returns the test for uncompressed files to examine: new files, and files with a copy's name. */
  async #wantedIn({ path, owners }: Folder, sought: readonly Tailer[], missing: readonly Entry[], slices: TimeSlices) {
    const { newcomers, unseen } = this.#options
    const stems = new Set<string>()
    const add = (name: string) => stems.add(stemOf(basename(name)))
    await slices.each(sought, ({ origin, path }) => [origin.path ?? path, path].forEach(add))
    await slices.each(missing, entry => [nameOfEntry(entry), entry.path].forEach(add))
    await slices.each(unseen.in(path), name => add(name.path))
    return (one: Listed) => {
      if (newcomers.has(one.path)) return true
      for (const _ of stemsWithin(one.name, stems)) return owners.mayBeCopy(one)
      return false
    }
  }

  /** The files that, by their names, may have copies in this folder. */
  async #originalsIn({ waiting }: Folder, names: readonly Displaced[], slices: TimeSlices) {
    const { files } = this.#options
    const found = new Map<string, PossibleOriginal & { readonly tailer: Tailer }>()
    const add = (name: string) => {
      const tailer = found.has(name) ? undefined : files.named(name)
      if (!tailer) return
      const { fd } = tailer
      found.set(name, { tailer, first: fd === undefined ? undefined : orNone(() => firstBytes(fd)) })
    }
    await slices.each(names, ({ path }) => [path, ...originalsOf(path)].forEach(add))
    await slices.each(waiting, path => originalsOf(path).forEach(add))
    return found
  }

  /** Compares unknown files with known ones. Returns undefined if a file must be inflated further, or opened later. */
  async #compare(
    folder: Folder,
    sought: readonly Tailer[],
    missing: readonly Entry[],
    others: readonly Listed[],
    isWanted: (one: Listed) => boolean,
    originals: FolderSnapshot['originals'],
    slices: TimeSlices,
  ): Promise<FolderComparison | undefined> {
    const { candidates, newcomers, hidden } = this.#options
    const { path, listed } = folder
    const isNew = (one: Listed) => newcomers.has(one.path)
    const { places, unreadable } = await candidates.of(path, others, isWanted, isNew, slices)
    hidden.setUnreadable(path, unreadable)
    const reading = this.readingIn(path)
    const byKey = new Map<string, Place>()
    const unread: Place[] = []
    const free = new Set<string>()
    await slices.each(places, one => {
      byKey.set(one.key, one)
      if (reading.size > 0 && reading.has(compressedIdentity(one))) return
      unread.push(one)
      free.add(one.key)
    })
    await this.#areWhole(originals, [], slices)
    const subjects = await this.#subjectsIn(folder, missing, slices)
    const claims = await this.#assign(subjects, unread, slices)
    if (!claims) return undefined
    const claimed = new Map(claims.map(({ candidate, file }) => [candidate.key, file]))
    // A file that cannot be read was not compared, and one that was known then may be set aside since.
    const unclear = new Set(unreadable.filter(one => isOfSystem(one.error)).map(({ key }) => key))
    const unclaimed = new Map<string, Place>()
    await slices.each(unread, one => claimed.has(one.key) || unclear.has(one.key) || unclaimed.set(one.key, one))
    const compared = new Set<string>()
    const unknown = new Set(unclaimed.keys())
    await slices.each(others, one => {
      const { key } = one
      if (!unclear.has(key) && byKey.get(key)?.first.length !== 0) compared.add(key)
      if (!claimed.has(key) && isWanted(one)) unknown.add(key)
    })
    const gone = new Set<Entry | Tailer | undefined>([...sought, ...missing])
    const known = {
      subjects,
      missing: new Set(subjects.filter(({ tailer, entry }) => gone.has(tailer ?? entry))),
      free,
      claims,
      readers: [...reading.values()],
      isGone: listed.length === 0 && !existsSync(path),
    }
    const waiting = await this.#waitingIn(folder, slices)
    return { ...folder, ...known, places: byKey, unreadable, unclaimed, claimed, compared, unknown, waiting }
  }

  /**
   * Checks open files for truncations. Returns true if no file was truncated, and those with a name still have it.
   */
  async #areWhole(named: FolderSnapshot['originals'], others: readonly Tailer[], slices: TimeSlices): Promise<boolean> {
    const { files } = this.#options
    let areWhole = true
    const all = [
      ...Array.from(named, ([name, { tailer }]) => ({ name, tailer })),
      ...others.map(tailer => ({ name: '', tailer })),
    ]
    for (const { name, tailer } of all) {
      if (slices.due) await slices.pause()
      // A truncation may have been found since, or another file found by a sweep may have had the name.
      if (name !== '' && files.named(name) !== tailer) areWhole = false
      else if (tailer.copy || !files.open(tailer) || tailer.fd === undefined) continue
      else if (tailer.hasPortion || (name !== '' && !leadsTo(name, tailer.key))) areWhole = false
      else if (this.#ask(tailer, () => this.#leaveTruncated(tailer))) areWhole = false
    }
    return areWhole
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

  /** Those of the new files that still exist. */
  async #waitingIn({ listed, waiting }: Folder, slices: TimeSlices): Promise<WaitingFile[]> {
    const { newcomers, open } = this.#options
    const found: WaitingFile[] = []
    const left = new Set(waiting)
    await slices.each(left.size > 0 ? listed : [], ({ path, stat }) => {
      if (left.delete(path)) found.push({ path, stat, first: withFile(path, firstBytes, { open }) })
    })
    for (const path of left) newcomers.over(path)
    return found
  }

  /** The files that are read from compressed copies, by the state of the copy. */
  readingIn(folder: string): ReadonlyMap<string, Tailer> {
    const reading = new Map<string, Tailer>()
    for (const tailer of this.#options.files.in(folder))
      if (tailer.copy) reading.set(compressedIdentity(tailer.copy), tailer)
    return reading
  }

  async #subjectsIn(
    { path, there, byKey, owners }: Folder,
    missing: readonly Entry[],
    slices: TimeSlices,
  ): Promise<Subject[]> {
    const { files, saved, hidden } = this.#options
    const subjects: Subject[] = []
    // A rotated file may belong to the next owner of the log.
    const add = (one: Subject) => subjects.push({ ...one, uids: owners.of(one.names[0]!) ?? one.uids })
    for (const tailer of [...files.in(path)]) {
      if (tailer.copy) continue
      if (slices.due) await slices.pause()
      // Update the head of the file, because copies also contain what was written to the file after the sweep.
      if (tailer.fd !== undefined && tailer.at === 0 && tailer.head.bytes < FINGERPRINT_BYTES)
        this.#ask(tailer, () => tailer.holds())
      const there = byKey.get(tailer.key)
      add(ofTailer(tailer, there && tailer.mayBe(there.path, there.stat) ? there : undefined))
    }
    // Without a comparison, a file that is there may have other content by now.
    const thereOf = (entry: Entry) => (there.has(entry) && !hidden.has(entry) ? byKey.get(entryKey(entry)) : undefined)
    await slices.each([...[...there].filter(one => 'offset' in one), ...missing], entry => {
      if (saved.holds(entry)) add(ofEntry(entry, saved.lookedAt, thereOf(entry)))
    })
    return subjects
  }

  /** Compares the files. Returns undefined if a file must first be inflated further, or cannot be opened now. */
  async #assign(
    subjects: readonly Subject[],
    places: readonly Place[],
    slices: TimeSlices,
  ): Promise<Claim<Subject, Place>[] | undefined> {
    const { candidates } = this.#options
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
        let answered = candidates.answer(question)
        if (!answered) {
          const isOver = await candidates.inflate(question)
          slices.restart()
          answered = isOver ? candidates.answer(question) : undefined
          if (!answered) return undefined
        }
        step = run.next(answered.answer)
      }
    } catch (error) {
      if (!lacksDescriptor(error)) throw error
      return undefined
    }
  }
}

/** A link to a file of the log's owner, or of root, may be another user's. */
function isOwnLink(one: Listed, owners: Owners): boolean {
  const link = orNone(() => lstatSync(one.path, { bigint: true, throwIfNoEntry: false }))
  return !link || link.uid === one.stat.uid || owners.mayBeCopy({ ...one, stat: link })
}
