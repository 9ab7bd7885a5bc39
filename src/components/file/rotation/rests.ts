import type { BigIntStats } from 'node:fs'
import { dirname } from 'node:path'
import type { SourceContext } from '../../../core/component.js'
import { withFile } from '../../../lib/files/disk/disk.js'
import { COPY_ONLY, FINGERPRINT_BYTES, fingerprint, fingerprintAt, keyOf, NO_BYTES, same } from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import type { Entry } from '../saved.js'
import type { Candidates, CandidatesOptions, Compressed, Listed, Place } from './candidates.js'
import { isCompressed } from './candidates.js'
import { Copy, versionOf } from './copy.js'
import type { Hidden } from './hidden.js'
import type { SearchOptions } from './search.js'
import { nameOf } from './subjects.js'

/** Maximum number of bytes that one compressed byte inflates to. A damaged file may state a larger size. */
const MOST_INFLATED = 1032

interface RestsOptions extends SearchOptions, CandidatesOptions {
  readonly candidates: Candidates
  readonly hidden: Hidden
  /** Called when a file was just renamed, so that the next search of its folder finds it again. */
  searchAgain(folder: string): void
}

/** Continues to read a file whose rest was found under another name or in a copy. Also reads unseen files. */
export class Rests {
  readonly #options: RestsOptions

  constructor(options: RestsOptions) {
    this.#options = options
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
    tailer.path = tailer.found = path
    this.#begin(tailer)
  }

  /**
   * Records that `place` is a copy of the tailer's file. If the copy has the rest, continues to read in the copy.
   * Returns false if the copy was just renamed or removed.
   */
  found(tailer: Tailer, place: Place, isRest: boolean): boolean {
    const { files, context } = this.#options
    if (isRest && !files.readOn(tailer, this.#at(place, tailer.at))) {
      this.#options.searchAgain(dirname(place.path))
      return false
    }
    tailer.claimed = place.key
    if (isRest) {
      report(tailer, place, context)
      tailer.wasLookedFor()
      this.#begin(tailer)
    } else if (!place.isCompressed) this.putEnd(place, tailer.origin.path!)
    return true
  }

  /** The file or compressed copy in which reading continues at `offset`. */
  #at(place: Place, offset: number): Place | Copy {
    if (!isCompressed(place)) return place
    return new Copy(place, this.#options, this.#options.candidates.take(place.stat, offset))
  }

  #begin(tailer: Tailer): void {
    tailer.awaySince = this.#options.context.clock.now()
    this.#options.onReady(tailer)
  }

  /** Records the end of a plain copy that has no unread bytes, so that the copy is recognized if it grows. */
  putEnd({ path, stat, size, first }: Place, file: string): void {
    const head = fingerprint(first, 0, first.length)
    const tail = withFile(path, fd => fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size)) ?? NO_BYTES
    // How long the position is kept depends on the modification time.
    const away = Number(stat.mtimeNs) / 1e6
    const position = { offset: size, continues: false, head, tail, claimed: keyOf(stat) }
    this.#options.saved.put({ path, file, ...identityOf(stat), ...position, away })
  }

  /** Reads a file that was not seen before. Returns false if the file was just renamed and must be found again. */
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

  readOn(entry: Entry, place: Place): void {
    const { context, saved, hidden } = this.#options
    const file = nameOf(entry)
    const { path, stat } = place
    // The rest was counted as lost. If the copy was not complete yet, it changes.
    if (place.key === entry.claimed && entry.cut === versionOf(stat)) {
      hidden.addCut(place)
      return
    }
    if (isCompressed(place)) {
      this.#start(entry, place)
      context.log.debug({ file, copy: path }, 'file is gone; searching for its rest in a compressed copy')
    } else if (stat.size <= BigInt(entry.offset)) {
      const { gone: _gone, size: _size, ...rest } = entry
      const head = place.head(rest.head.bytes)
      saved.replace(entry, { ...rest, path, file, ...identityOf(stat), head, claimed: place.key })
    } else this.#start(entry, place)
  }

  /**
   * Reads the file of an entry from the saved position. Returns false if the file was just renamed, or is not readable.
   */
  #start(entry: Entry, place: Place): boolean {
    const { files, saved, context, searchAgain } = this.#options
    const { offset } = entry
    const { path, key } = place
    const tailer = files.adoptRest(entry, this.#at(place, offset))
    if (!tailer) {
      // Save the entry, so that the file can also be found by its content.
      saved.put(entry)
      searchAgain(dirname(path))
      return false
    }
    tailer.claimed = key
    if (!place.isCompressed)
      context.log.info({ file: nameOf(entry), now: path, offset }, 'reading the rest of a rotated file')
    this.#begin(tailer)
    return true
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

export function identityOf({ dev, ino, birthtimeNs, uid }: BigIntStats): Pick<Entry, 'dev' | 'ino' | 'birth' | 'uid'> {
  return { dev: String(dev), ino: String(ino), birth: String(birthtimeNs), uid: Number(uid) }
}
