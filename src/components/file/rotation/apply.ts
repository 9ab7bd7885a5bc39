import { basename, dirname } from 'node:path'
import type { SourceContext } from '../../../core/component.js'
import { existsSync, orNone, withFile } from '../../../lib/files/disk/disk.js'
import { formatOfName } from '../compression.js'
import {
  CLOCK_MS,
  COPY_ONLY,
  FINGERPRINT_BYTES,
  fingerprint,
  fingerprintAt,
  identityOf,
  keyOf,
  NO_BYTES,
  same,
} from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import { type Entry, entryKey } from '../saved.js'
import type { Candidates, CandidatesOptions, Compressed, Listed, Place } from './candidates.js'
import { isCompressed } from './candidates.js'
import { Copy, versionOf } from './copy.js'
import type { Hidden } from './hidden.js'
import { isRotatedName } from './names.js'
import type { Step } from './plan.js'
import type { Folder, SearchOptions } from './search.js'
import { nameOf, ofEntry, ofTailer, type Subject } from './subjects.js'
import type { Unseen } from './unseen.js'

/** Maximum number of bytes that one compressed byte inflates to. A damaged file may state a larger size. */
const MOST_INFLATED = 1032

interface ApplyOptions extends SearchOptions, CandidatesOptions {
  readonly candidates: Candidates
  readonly hidden: Hidden
  readonly unseen: Unseen
  /** Whether the folder cannot be listed. Nothing there counts as gone. */
  isUnlisted(folder: string): boolean
  /** The paths that could not be examined, and may lead to a file that had this name. */
  unexaminedOf(name: string): readonly string[]
}

/**
 * Carries out what was decided about the files of a folder. Methods return false if a file is not as it was when that
 * was decided. The folder must then be looked at again.
 */
export class Apply {
  readonly #options: ApplyOptions

  constructor(options: ApplyOptions) {
    this.#options = options
  }

  step(step: Step, folder: Folder): boolean {
    const { file } = step
    const { tailer, entry } = file
    switch (step.do) {
      case 'note':
        tailer?.noteCopy(step.place.size, size => orNone(() => file.markIn(size)))
        return true
      case 'claim':
        this.#setClaim(file, step.claimed)
        return true
      case 'release':
        // The files after it must not wait.
        if (this.#options.isUnlisted(folder.path)) tailer?.wasSought(false)
        else if (tailer) this.#release(tailer, folder)
        else if (this.isCurrent(entry!)) this.#lose(entry!, folder)
        return true
    }
    if (tailer ? tailer.isOpen : !this.isCurrent(entry!)) return true
    if (step.do === 'continue')
      return tailer ? this.#continue(tailer, step.place) : this.#continueEntry(entry!, step.place)
    // A batch came back while the files were compared, so the copy may have what must be read again.
    if (tailer && tailer.at < file.position.offset) return false
    if (!step.place.isCompressed) this.#putEnd(step.place, tailer ? tailer.origin.path! : nameOf(entry!))
    return true
  }

  isCurrent(entry: Entry): boolean {
    return this.#options.saved.get(entryKey(entry)) === entry
  }

  #setClaim({ tailer, entry }: Subject, claimed: string | undefined): void {
    if (tailer) tailer.claim(claimed)
    else if (this.isCurrent(entry!)) this.#options.saved.replace(entry!, { ...entry!, claimed })
  }

  /** Reads a file that has grown and still exists under another name. */
  resume(place: Listed, entry: Entry): void {
    const tailer = this.#options.files.adoptRest(entry, place)
    if (tailer) this.goOn(tailer, place.path)
    else this.#options.hidden.addUnopened(entry)
  }

  goOn(tailer: Tailer, path: string): void {
    if (tailer.unread > 0)
      this.#options.context.log.info({ file: tailer.origin.path, now: path }, 'file was renamed; reading its rest')
    tailer.rename(path)
    this.#begin(tailer)
  }

  #continue(tailer: Tailer, place: Place): boolean {
    if (!this.#options.files.readOn(tailer, this.#at(place, tailer.at))) return false
    tailer.claim(place.key)
    report(tailer, place, this.#options.context)
    tailer.wasLookedFor()
    this.#begin(tailer)
    return true
  }

  /** The file or compressed copy in which reading continues at `offset`. */
  #at(place: Place, offset: number): Place | Copy {
    if (!isCompressed(place)) return place
    return new Copy(place, this.#options, this.#options.candidates.take(place.stat, offset))
  }

  #begin(tailer: Tailer): void {
    tailer.stirred()
    this.#options.onReady(tailer)
  }

  /** Records the end of a plain copy that has no unread bytes, so that the copy is recognized if it grows. */
  #putEnd({ path, stat, size, first }: Place, file: string): void {
    const head = fingerprint(first, 0, first.length)
    const tail = withFile(path, fd => fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size)) ?? NO_BYTES
    // How long the position is kept depends on the modification time.
    const away = Number(stat.mtimeNs) / 1e6
    const position = { offset: size, continues: false, head, tail, claimed: keyOf(stat) }
    this.#options.saved.put({ path, file, ...identityOf(stat), ...position, away })
  }

  /** Reads a file that was not seen before. */
  readUnseen(name: string, place: Place): boolean {
    if (isCompressed(place)) {
      this.inflate(name, place)
      return true
    }
    const { path, stat } = place
    return this.#start({ path, file: name, ...identityOf(stat), ...beginningOf(place), size: Number(stat.size) }, place)
  }

  /** Whether the compressed file is or was read under another name. A file may have names in several folders. */
  isKnownByLink(place: Compressed): boolean {
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

  /** Reads a compressed file from its beginning. Its events have the file name `name`. */
  inflate(name: string, place: Compressed): void {
    const { log } = this.#options.context
    const { path, stat, size, uid } = place
    const known = { uid, ...(size <= MOST_INFLATED * Number(stat.size) && { size }) }
    this.#start({ path: name, ...COPY_ONLY, birth: birthOf(place), ...beginningOf(place), ...known, gone: true }, place)
    if (name === path) log.info({ file: path }, 'reading a compressed file')
    else log.info({ file: name, copy: path }, 'reading a rotated file that was not seen before')
  }

  #continueEntry(entry: Entry, place: Place): boolean {
    const { context, saved, hidden } = this.#options
    const file = nameOf(entry)
    const { path, stat } = place
    // The rest was counted as lost. If the copy was not complete yet, it changes.
    if (place.key === entry.claimed && entry.cut === versionOf(stat)) {
      hidden.addCut(place)
      return true
    }
    if (isCompressed(place)) {
      context.log.debug({ file, copy: path }, 'file is gone; searching for its rest in a compressed copy')
    } else if (stat.size <= BigInt(entry.offset)) {
      const { gone: _gone, size: _size, ...rest } = entry
      const head = place.head(rest.head.bytes)
      saved.replace(entry, { ...rest, path, file, ...identityOf(stat), head, claimed: place.key })
      return true
    }
    return this.#start(entry, place)
  }

  /** Reads the file of an entry from the saved position. */
  #start(entry: Entry, place: Place): boolean {
    const { files, saved, context } = this.#options
    const { offset } = entry
    const { path, key } = place
    const tailer = files.adoptRest(entry, this.#at(place, offset))
    if (!tailer) {
      // Save the entry, so that the file can also be found by its content.
      saved.put(entry)
      return false
    }
    tailer.claim(key)
    if (!place.isCompressed)
      context.log.info({ file: nameOf(entry), now: path, offset }, 'reading the rest of a rotated file')
    this.#begin(tailer)
    return true
  }

  /** Called when no copy has the rest of a closed file. */
  #release(tailer: Tailer, folder: Folder): void {
    if (tailer.isOpen || tailer.copy) return
    tailer.wasSought(folder.byKey.get(tailer.key)?.path === tailer.path)
    const { head, birth, size, truncatedSince, origin, path } = tailer
    if (this.#options.unexaminedOf(origin.path ?? path).length > 0) return
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
    if (this.#options.unexaminedOf(nameOf(entry)).length > 0) {
      this.#options.hidden.addUnopened(entry)
      return
    }
    const isHidden =
      entry.away === undefined &&
      this.#options.hidden.mayHideRestOf(entry, ofEntry(entry, this.#options.saved.lookedAt))
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
    this.#options.unseen.displaced(name, since)
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

  /** Whether a file that cannot be read may hold the rest of the tailer's file. */
  mayHideRestOf(tailer: Tailer): boolean {
    return this.#options.hidden.mayHide(dirname(tailer.path), ofTailer(tailer))
  }
}

function beginningOf({ first }: Place): Pick<Entry, 'offset' | 'continues' | 'head' | 'tail'> {
  return { offset: 0, continues: false, head: fingerprint(first, 0, first.length), tail: NO_BYTES }
}

/** Identifies a compressed file. The inode is not enough, because another file may get it later. */
export function stateOf({ key, birth, changedAt }: Pick<Place, 'key' | 'birth' | 'changedAt'>): string {
  return `${key}@${birth || changedAt}`
}

/** Used as the birth time of a file that was seen only as a compressed copy. */
function birthOf({ changedAt }: Place): string {
  return String(Math.round(changedAt * 1e6))
}

function report({ origin, unread, at }: Tailer, place: Place, { log }: SourceContext): void {
  const fields = { file: origin.path, copy: place.path, offset: at, unread_bytes: unread }
  if (place.isCompressed) log.info(fields, 'file is gone; searching for its rest in a compressed copy')
  else if (unread > 0) log.info(fields, 'reading the rest of a truncated file from its copy')
  else log.debug(fields, 'the copy of a truncated file was read to its end')
}
