import type { BigIntStats } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { SourceContext } from '../../../core/component.js'
import { errorCode } from '../../../core/errors.js'
import { closeSync, existsSync, statOrNone, unlessSilent } from '../../../lib/files/disk/disk.js'
import { SilentFileSystem } from '../../../lib/files/disk/file-systems.js'
import { type BirthTimes, COPY_ONLY, FINGERPRINT_BYTES, fingerprint, keyOf, leadsTo, NO_BYTES } from '../identity.js'
import { openWithinSync } from '../open-within.js'
import type { PathProblems } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import { type Displaced, type Entry, entryKey, goneKeyOf, type Saved } from '../saved.js'
import type { Slices } from '../slices.js'
import { CLOCK_MS, type Sought } from './copies.js'
import { Copy } from './copy.js'
import type { Losses } from './losses.js'
import { compareAge } from './names.js'
import type { Rotated, Unseen } from './rotated.js'
import { search } from './search.js'
import type { Sibling } from './siblings.js'

/** How long files that were rotated during a search wait for it. Rotations that never rest disturb it again and again. */
const LONGEST_DELAY_MS = 10_000

/** What the searches for missing files share. */
export interface SearchOptions {
  readonly context: SourceContext
  readonly saved: Saved
  readonly problems: PathProblems
  readonly births: BirthTimes
  readonly rotated: Rotated
  readonly losses: Losses
  /** All tailers, including those of missing files. */
  tailers(): Iterable<Tailer>
  /** Opens the file if it is closed; false if it cannot be read now. */
  open(tailer: Tailer): boolean
  /** Called when the file may have more to read. */
  onReady(tailer: Tailer): void
}

export interface MissingOptions extends SearchOptions {
  /** Starts reading the file at `path` if it is that of the entry; otherwise undefined. */
  adopt(path: string, entry: Entry): Tailer | undefined
  /** Starts reading the rest of the entry's file from a compressed copy. */
  adoptCopy(entry: Entry, copy: Copy): Tailer
  /** Puts the lines of this tailer before those of the file that has this name now. */
  precede(name: string, tailer: Tailer): void
  /** The open file that has this name now. */
  at(name: string): Tailer | undefined
  /** Called when the open file no longer contains what was read from it. */
  onTruncated(tailer: Tailer): void
}

/** Finds files that were renamed, copied or compressed while the source did not run, or grew after their release. */
export class Missing {
  readonly #options: MissingOptions
  /** Whether the search must be repeated, because the files changed during it. */
  isIncomplete = false
  /** Whether the search for unseen files waits for other searches. */
  isWaiting = false
  /** Files that come after those that are searched for. */
  delays: ReadonlySet<Tailer> = new Set()
  /** Names that refer to another file than before, and the earliest time of the change, wall clock in milliseconds. */
  readonly #displaced = new Map<string, number>()
  /** Files that a search could not open, and the name that it was for with its time. They may be new, or copies. */
  readonly #unreadable = new Map<string, Displaced>()
  /** Since when the files of a name wait for the search. */
  readonly #waitingSince = new Map<string, number>()
  /** Entries whose rest may be in a compressed file that cannot be read. */
  readonly #hidden = new Set<Entry>()
  /** Keys of files with a position that could not be opened. */
  readonly #unopened = new Set<string>()
  /** Whether the files that existed at the start are still being reported. */
  #isStarting = true

  constructor(options: MissingOptions) {
    this.#options = options
    const { displaced, names, lookedAt } = options.saved
    for (const { path, since } of displaced) this.#displaced.set(path, since)
    // Other files may have come and gone under them while the source did not run, also if they were vacant before.
    if (lookedAt !== undefined) for (const name of names) this.displaced(name, lookedAt)
  }

  /** Names whose earlier files have not been searched for. */
  get displacements(): Displaced[] {
    return [...[...this.#displaced].map(([path, since]) => ({ path, since })), ...this.#unreadable.values()]
  }

  /** Searches for all files with a position and without a tailer. */
  async find(tailers: Iterable<Tailer>, slices: Slices): Promise<void> {
    this.isIncomplete = false
    this.#unopened.clear()
    this.#hidden.clear()
    try {
      const { saved, rotated } = this.#options
      // A file that is renamed while the folder is listed may be found under neither name.
      const names = new Map([...saved.byFolder().keys()].map(folder => [folder, rotated.siblings.namesIn(folder)]))
      await this.#findCopies(await this.#findThere(slices), names, [...tailers], slices)
    } catch (error) {
      this.isIncomplete = true
      throw error
    }
  }

  /** Remembers a file that cannot be opened now. It is read when it can be, also under another name. */
  noteUnopened(path: string, stat: BigIntStats): void {
    const { saved, births, context } = this.#options
    const at = identityOf({ path, stat })
    this.#unopened.add(keyOf(stat))
    const size = Number(stat.size)
    const known = saved.knows(stat, births) ? saved.find(stat.dev, stat.ino, path) : undefined
    if (known && (known.size ?? 0) >= size) return
    saved.put({ path, ...at, offset: 0, continues: false, head: NO_BYTES, tail: NO_BYTES, ...known, size })
    context.checkpoints.changed()
  }

  /** Tries again to open the files that could not be opened. */
  async findUnopened(slices: Slices): Promise<void> {
    if (this.#unopened.size === 0) return
    const known = new Set([...this.#options.saved.entries()].map(entryKey))
    for (const key of this.#unopened) if (!known.has(key)) this.#unopened.delete(key)
    const there = new Set([...(await this.#findThere(slices, new Set(this.#unopened)))].map(entryKey))
    // They are gone, so that copies of them are searched for.
    if ([...this.#unopened].some(key => !there.has(key))) this.isIncomplete = true
  }

  /** Finds files that still exist, or only those with these keys, and resumes those that grew. */
  async #findThere(slices: Slices, keys?: ReadonlySet<string>): Promise<ReadonlySet<Entry>> {
    const { saved, births } = this.#options
    const there = new Set<Entry>()
    const found: { path: string; stat: BigIntStats; entry: Entry }[] = []
    const isWanted = (entry: Entry) => !entry.gone && (!keys || keys.has(entryKey(entry)))
    for (const [folder, entries] of saved.byFolder()) {
      const wanted = new Map(entries.filter(isWanted).map(entry => [entryKey(entry), entry]))
      if (keys && wanted.size === 0) continue
      const above = statOrNone(folder)
      if (above) births.learn(above)
      for await (const [path, stat] of search(folder, wanted, slices)) {
        const entry = wanted.get(keyOf(stat))!
        if (Number(stat.size) < entry.offset || births.differ(stat, BigInt(entry.birth))) continue
        there.add(entry)
        if (Number(stat.size) > entry.offset) found.push({ path, stat, entry })
      }
    }
    // Of several files that had a name, the oldest is read first.
    found.sort((a, b) => Number(a.stat.mtimeNs - b.stat.mtimeNs) || compareAge(a.path, b.path))
    for (const { path, entry } of found) {
      try {
        const tailer = this.#options.adopt(path, entry)
        if (!tailer) continue
        this.#options.precede(nameOf(entry), tailer)
        goOn(tailer, path, this.#options)
      } catch (error) {
        this.#failed(path, error)
        this.#unopened.add(entryKey(entry))
      }
    }
    return there
  }

  /** Whether its file, or a compressed one that may have its rest, cannot be read now. */
  isHidden = (entry: Entry): boolean => this.#hidden.has(entry) || this.#unopened.has(entryKey(entry))

  /**
   * Searches for copies of missing files, except those in `there`. The oldest is read first. `before`: the names in the
   * folders before the search.
   */
  async #findCopies(
    there: ReadonlySet<Entry>,
    before: ReadonlyMap<string, string>,
    tailers: readonly Tailer[],
    slices: Slices,
  ): Promise<void> {
    const { saved, rotated } = this.#options
    const folders = saved.byFolder()
    const read = tailers.filter(({ copy, isOpen }) => copy || !isOpen).map(({ path }) => dirname(path))
    rotated.copies.keep(new Set([...folders.keys(), ...read]))
    rotated.begin()
    const found: { entry: Entry; place: Sibling | Copy; changedAt: bigint }[] = []
    const nowhere: Entry[] = []
    for (const [folder, entries] of folders) {
      const names = before.get(folder) ?? rotated.siblings.namesIn(folder)
      const missing = entries.filter(entry => !there.has(entry)).sort((a, b) => b.head.bytes - a.head.bytes)
      if (missing.some(({ head }) => head.bytes < FINGERPRINT_BYTES)) {
        await rotated.claimCopies(folder, tailers, slices)
        for (const entry of entries)
          if (there.has(entry)) await rotated.copies.claim(folder, { ...entry, size: entry.offset }, slices)
      }
      for (const entry of missing) {
        if (slices.due) await slices.pause()
        const sought = soughtBy(entry, saved.lookedAt)
        const place = await rotated.find(folder, sought, slices)
        if (!place && rotated.copies.mayHide(folder, sought)) this.#hidden.add(entry)
        if (place) found.push({ entry, place, changedAt: place instanceof Copy ? place.changedAt : place.stat.mtimeNs })
        const isLost = !place && !this.#hidden.has(entry) && (entry.size ?? 0) > entry.offset
        if (!isLost || entry.away !== undefined || !existsSync(folder)) continue
        // Any compressed file that was made since may be that of one that was never opened.
        const since = entry.head.bytes === 0 ? this.#birthOf(entry, folder) : undefined
        if (since !== undefined && rotated.copies.isIn(folder, basename(nameOf(entry)), since))
          this.displaced(nameOf(entry), since)
        else nowhere.push(entry)
      }
      if (missing.length > 0 && rotated.siblings.namesIn(folder) !== names) this.isIncomplete = true
    }
    found.sort((a, b) => (a.changedAt < b.changedAt ? -1 : 1))
    for (const { entry, place } of found) this.#readOn(entry, place)
    if (!this.isIncomplete) for (const entry of nowhere) this.#reportLost(entry)
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
    saved.remove(entry)
    saved.put({ ...entry, away: context.clock.wall() })
    context.checkpoints.changed()
    const what = gone ? 'was truncated' : 'is gone'
    const msg = `file ${what} before it was read to its end, and no copy has the rest. Its position is kept for a week in case it reappears`
    losses.report({ file: nameOf(entry), bytes: size - offset, kind: gone ? 'truncated' : 'vanished', msg })
  }

  /** Records that the name refers to another file than at this time, wall clock in milliseconds. */
  displaced(path: string, since: number): void {
    if (!this.#displaced.has(path)) this.#displaced.set(path, since - CLOCK_MS)
  }

  /** Finds unseen files with such names, and reads them completely. `now`: wall clock in milliseconds. */
  async findUnseen(now: number, slices: Slices): Promise<void> {
    const delays = new Set<Tailer>()
    this.delays = delays
    this.isWaiting = false
    const { rotated, tailers, at } = this.#options
    const before = this.#isStarting ? undefined : now
    const again: [path: string, since: number][] = []
    this.#tryUnreadable()
    if (this.#displaced.size > 0) rotated.begin()
    for (const [path, since] of this.#displaced) {
      if (slices.due) await slices.pause()
      // Many files may be deleted at once, and each of their names is displaced.
      if (!(await rotated.hasUnread(dirname(path), since, slices))) {
        this.#displaced.delete(path)
        this.#waitingSince.delete(path)
        continue
      }
      const unreadable = (file: string) => {
        this.#unreadable.set(file, { path, since })
        this.#options.context.checkpoints.changed()
      }
      const unseen = this.#isTold(path)
        ? await rotated.unseen(path, since, before, [...tailers()], slices, unreadable)
        : undefined
      // Another file may have been truncated in the meantime, whose copy was found.
      if (!unseen || !this.#isTold(path)) {
        this.isWaiting = true
        for (const tailer of this.#after(path)) delays.add(tailer)
        continue
      }
      const fd = at(path)?.fd
      const isCopy = ({ place }: Unseen) =>
        fd !== undefined && 'stat' in place && rotated.siblings.isCopyOf(place.path, fd)
      const whole = unseen.filter(one => !isCopy(one))
      this.#displaced.delete(path)
      try {
        this.#readUnseen(path, whole)
        // A file was just renamed or compressed, and must be found again.
        if (this.isIncomplete) again.push([path, since])
        else this.#waitingSince.delete(path)
      } catch (error) {
        this.#displaced.set(path, since)
        throw error
      }
    }
    for (const [path, since] of again) {
      this.#displaced.set(path, since)
      for (const tailer of this.#after(path)) delays.add(tailer)
    }
    this.isWaiting ||= again.length > 0
    this.#isStarting &&= this.isWaiting
  }

  /** Searches again for the names of files that could not be opened, once they can be, or are gone. */
  #tryUnreadable(): void {
    const { problems, context } = this.#options
    for (const [file, { path, since }] of this.#unreadable) {
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
      this.#displaced.set(path, Math.min(since, this.#displaced.get(path) ?? since))
    }
  }

  /** The files that come after those searched for: the current one, and those that had the name during the search. */
  *#after(name: string): Iterable<Tailer> {
    const { at, tailers, context } = this.#options
    const current = at(name)
    if (current) yield current
    const now = context.clock.now()
    const since = this.#waitingSince.get(name) ?? now
    this.#waitingSince.set(name, since)
    if (now - since > LONGEST_DELAY_MS) return
    for (const tailer of tailers()) {
      // The search itself waits for copies to be read.
      if (tailer.held && !tailer.copy && tailer.origin.path === name) yield tailer
    }
  }

  /** Whether the rest of every file that was read is located, so that any other file was not seen. */
  #isTold(path: string): boolean {
    if (this.isIncomplete || !this.#isSought(path)) return false
    const folder = dirname(path)
    for (const { copy, path } of this.#options.tailers()) {
      if (copy && !copy.isFound && dirname(path) === folder) return false
    }
    return true
  }

  /** Whether all copies of this file are matched, so that none must be read before newer ones. */
  isSettled(path: string): boolean {
    return !this.#displaced.has(path) && this.#isSought(path)
  }

  /** Whether every truncation of this file was detected, and its copies were searched for. */
  #isSought(path: string): boolean {
    const { at, open, onTruncated, tailers } = this.#options
    const now = at(path)
    if (now && !now.copy && open(now)) {
      // If it was just renamed, the files found may have had the name after it.
      if (now.hasPortion || !leadsTo(path, now.key)) return false
      if (!now.holds()) onTruncated(now)
    }
    for (const { truncatedSince, wasSought, copy, origin } of tailers()) {
      if (origin.path === path && truncatedSince !== undefined && !wasSought && !copy) return false
    }
    return true
  }

  #readOn(entry: Entry, place: Sibling | Copy): void {
    const { adoptCopy, precede, onReady, context, saved } = this.#options
    const file = nameOf(entry)
    if (place instanceof Copy) {
      const tailer = adoptCopy(entry, place)
      precede(file, tailer)
      context.log.debug({ file, copy: place.path }, 'file is gone; searching a compressed copy for its rest')
      onReady(tailer)
      return
    }
    const { path, stat } = place
    const { gone: _gone, size: _size, ...rest } = entry
    const moved = { ...rest, path, file, ...identityOf(place) }
    saved.remove(entry)
    if (stat.size > BigInt(entry.offset)) this.#begin(path, moved, entry)
    else saved.put(moved)
  }

  /** Reads all unseen files of a name, the oldest first. */
  #readUnseen(name: string, unseen: Unseen[]): void {
    const { rotated, adoptCopy, precede, context, onReady } = this.#options
    unseen.sort((a, b) => Number(a.changedAt - b.changedAt) || compareAge(a.place.path, b.place.path))
    for (const { place, changedAt } of unseen) {
      const at = 'stat' in place ? identityOf(place) : { ...COPY_ONLY, birth: String(changedAt) }
      const head = fingerprint(place.first, 0, place.first.length)
      const entry = { path: name, ...at, offset: 0, continues: false, head, tail: NO_BYTES }
      if ('stat' in place) {
        const size = Number(place.stat.size)
        this.#begin(place.path, { ...entry, path: place.path, file: name, size })
      } else {
        const gone: Entry = { ...entry, gone: true }
        const tailer = adoptCopy(gone, rotated.copies.whole(place, goneKeyOf(gone)))
        precede(name, tailer)
        context.log.info({ file: name, copy: place.path }, 'reading a rotated file that was not seen before')
        onReady(tailer)
      }
    }
  }

  /** Reads a file from the position of the entry. `former` is restored if its file system does not respond. */
  #begin(path: string, entry: Entry, former?: Entry): void {
    const { saved, adopt, precede, context } = this.#options
    const file = nameOf(entry)
    saved.put(entry)
    try {
      const tailer = adopt(path, entry)
      if (!tailer) {
        // It was just renamed.
        this.isIncomplete = true
        return
      }
      precede(file, tailer)
      const { offset } = entry
      context.log.info({ file, now: path, offset }, 'reading the rest of a rotated file')
      follow(tailer, path, this.#options)
    } catch (error) {
      if (error instanceof SilentFileSystem) {
        saved.remove(entry)
        if (former) saved.put(former)
      }
      this.#failed(path, error)
    }
  }

  #failed(path: string, error: unknown): void {
    unlessSilent(error)
    // It was just renamed.
    if (errorCode(error) === 'ENOENT') this.isIncomplete = true
    else this.#options.problems.failed(path, 'open', error)
  }
}

/** Reads the rest of a file that was renamed. */
export function goOn(tailer: Tailer, path: string, options: SearchOptions): void {
  options.context.log.info({ file: tailer.origin.path, now: path }, 'file was renamed; reading its rest')
  follow(tailer, path, options)
}

function follow(tailer: Tailer, path: string, { context, onReady }: SearchOptions): void {
  tailer.path = path
  tailer.found = path
  tailer.awaySince = context.clock.now()
  onReady(tailer)
}

function nameOf({ file, path }: Entry): string {
  return file ?? path
}

function identityOf({ stat: { dev, ino, birthtimeNs } }: Sibling): Pick<Entry, 'dev' | 'ino' | 'birth'> {
  return { dev: String(dev), ino: String(ino), birth: String(birthtimeNs) }
}

function soughtBy(entry: Entry, lookedAt: number | undefined): Sought {
  const { birth, offset, size = offset, head, tail, away } = entry
  const since = lookedAt === undefined ? undefined : lookedAt - CLOCK_MS
  const [key, name, now] = [goneKeyOf(entry), basename(nameOf(entry)), basename(entry.path)]
  return { key, name, now, birth: BigInt(birth), offset, size, head, tail, read: away !== undefined, since }
}
