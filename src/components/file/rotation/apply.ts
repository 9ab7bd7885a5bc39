import type { SourceContext } from '../../../core/component.js'
import { orNone, withFile } from '../../../lib/files/disk/disk.js'
import { formatOf, isWide } from '../compression.js'
import { COPY_ONLY, FINGERPRINT_BYTES, fingerprint, fingerprintAt, identityOf, NO_BYTES, same } from '../identity.js'
import { blocks, wheres } from '../known/state.js'
import { isOfSystem } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import type { Displaced, Entry } from '../saved.js'
import type { Candidates, CandidatesOptions, Compressed, Place } from './candidates.js'
import { compressedIdentity, isCompressed } from './candidates.js'
import { Copy, versionOf } from './copy.js'
import type { Hidden } from './hidden.js'
import type { Folder, WaitingFile } from './look.js'
import type { Newcomers } from './newcomers.js'
import type { Listed } from './owners.js'
import type { FoundContinuation, NewFileVerdict, Step } from './plan.js'
import type { SearchOptions } from './search-options.js'
import { nameOfEntry } from './subjects.js'
import type { Unseen } from './unseen.js'

/** Maximum number of bytes that one compressed byte inflates to. A damaged file may state a larger size. */
const MOST_INFLATED = 1032

interface ApplyOptions extends SearchOptions, CandidatesOptions {
  readonly candidates: Candidates
  readonly hidden: Hidden
  readonly newcomers: Newcomers
  readonly unseen: Unseen
  /** Whether the sweep may miss the file that has this name. */
  mayMiss(name: string): boolean
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
    const { tailer, entry } = step.file
    if (step.do === 'note') {
      tailer?.noteCopy(step.place.size, size => orNone(() => step.file.markIn(size)))
      return true
    }
    if (step.do === 'claim') {
      this.#setClaim(step.file, step.claimed)
      return true
    }
    if (tailer ? tailer.isOpen : !this.#options.saved.holds(entry!)) return true
    switch (step.do) {
      case 'continue':
        return tailer ? this.#continue(tailer, step.place) : this.#continueEntry(entry!, step.place)
      case 'end':
        // A batch came back while the files were compared, so the copy may have what must be read again.
        if (tailer && tailer.at < step.file.position.offset) return false
        if (!step.place.isCompressed) this.#putEnd(step.place, tailer ? tailer.origin.path! : nameOfEntry(entry!))
        return true
      case 'hide':
        this.#options.hidden.add(entry!, step.hiding)
        return true
      case 'lose':
        this.#reportLost(entry!)
        return true
      case 'miss':
        // The files after it must not wait.
        tailer?.becomes(blocks.lookedFor)
        tailer?.to(wheres.notThere)
        return true
    }
    if (step.do === 'seek') this.#options.unseen.displaced(step.name, step.since)
    if (tailer) this.#release(tailer, folder, step.do === 'seek')
    return true
  }

  #setClaim({ tailer, entry }: Step['file'], claimed: string | undefined): void {
    if (tailer) tailer.claim(claimed)
    else if (this.#options.saved.holds(entry!)) this.#options.saved.replace(entry!, { ...entry!, claimed })
  }

  /** Reads a file that has grown and still exists under another name. Returns its entry if it cannot be read now. */
  resume(place: Listed, entry: Entry): Entry | undefined {
    const { files, hidden, saved, unseen } = this.#options
    const tailer = files.adoptRest(entry, place)
    if (tailer) {
      // Files that were rotated unseen come before a file of which nothing was read.
      if (tailer.isNew && unseen.delays(nameOfEntry(entry))) files.hold(tailer)
      this.goOn(tailer, place.path)
      return undefined
    }
    hidden.addUnopened(entry)
    if (place.path === entry.path || !saved.holds(entry)) return entry
    // If it was renamed by a rotation since the last look, other files may have had its name in between.
    files.displace(nameOfEntry(entry))
    const renamed = { ...entry, path: place.path, file: nameOfEntry(entry) }
    saved.replace(entry, renamed)
    return renamed
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
    tailer.becomes(blocks.lookedFor)
    this.#begin(tailer)
    return true
  }

  /** The file or compressed copy in which reading continues at `offset`. */
  #at(place: Place, offset: number): Place | Copy {
    if (!isCompressed(place)) return place
    return new Copy(place, this.#options, this.#options.candidates.take(place.stat, offset))
  }

  #begin(tailer: Tailer): void {
    tailer.to(wheres.stirred)
    this.#options.onReady(tailer)
  }

  /** Records the end of a plain copy that has no unread bytes, so that the copy is recognized if it grows. */
  #putEnd({ path, key, stat, size, first }: Place, file: string): void {
    const head = fingerprint(first, 0, first.length)
    const tail = withFile(path, fd => fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size)) ?? NO_BYTES
    // How long the position is kept depends on the modification time.
    const away = Number(stat.mtimeNs) / 1e6
    const position = { offset: size, continues: false, head, tail, claimed: key }
    this.#options.saved.put({ path, file, ...identityOf(stat), ...position, away })
  }

  /** Ends the search for a displaced name, and reads the files that had it. `unexamined`: paths that may lead to some. */
  readUnseen({ path, since }: Displaced, { read, hidden }: FoundContinuation, unexamined: readonly string[]): void {
    const { unseen, problems, hidden: known, context, mayMiss } = this.#options
    for (const one of hidden)
      if (isOfSystem(one.error)) known.addDisplaced(one.path, { path, since })
      else problems.hidden(one.path, one.error)
    for (const one of unexamined) known.addDisplaced(one, { path, since })
    // A file that has the name may still be unread. If it is renamed before a sweep finds it, only a search that goes
    // back as far as this one finds it.
    if (mayMiss(path)) known.addDisplaced(path, { path, since })
    if (hidden.length + unexamined.length > 0) context.checkpoints.changed()
    unseen.end(path)
    let unread = read.length
    try {
      for (const place of read) if (this.#readNew(path, place)) unread--
    } finally {
      if (unread > 0) unseen.displaced(path, since)
    }
  }

  /** Carries out what was decided about a new file. `place`: the file if nothing has claimed it. */
  takeUp({ path, stat, first }: WaitingFile, verdict: NewFileVerdict, place: Place | undefined): void {
    const { newcomers, problems, files } = this.#options
    const kind = newcomers.kindOf(path)
    if (verdict === 'wait' || kind === undefined) return
    if (verdict === 'new' || verdict === 'unread') {
      newcomers.over(path)
      newcomers.forget(stat)
      files.examine(path, kind, verdict)
      return
    }
    newcomers.over(path, stat, first && formatOf(first) !== undefined)
    if (isWide(verdict)) problems.refused(path, verdict)
    else if (verdict === 'format' || verdict === 'old') problems.compressed(path, verdict)
    else if (verdict === 'inflate' && place && isCompressed(place) && !this.#isKnownByLink(place))
      this.#inflate(path, place)
  }

  /** Reads a file that was not seen before. */
  #readNew(name: string, place: Place): boolean {
    if (isCompressed(place)) {
      this.#inflate(name, place)
      return true
    }
    const { path, stat } = place
    return this.#start({ path, file: name, ...identityOf(stat), ...beginningOf(place), size: Number(stat.size) }, place)
  }

  /** Whether the compressed file is or was read under another name. A file may have names in several folders. */
  #isKnownByLink(place: Compressed): boolean {
    for (const { copy } of this.#options.files.tailers)
      if (copy && compressedIdentity(copy) === compressedIdentity(place)) return true
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
  #inflate(name: string, place: Compressed): void {
    const { log } = this.#options.context
    const { path, stat, size, uid } = place
    const known = { uid, ...(size <= MOST_INFLATED * Number(stat.size) && { size }) }
    this.#start({ path: name, ...COPY_ONLY, birth: birthOf(place), ...beginningOf(place), ...known, gone: true }, place)
    if (name === path) log.info({ file: path }, 'reading a compressed file')
    else log.info({ file: name, copy: path }, 'reading a rotated file that was not seen before')
  }

  #continueEntry(entry: Entry, place: Place): boolean {
    const { context, saved, hidden } = this.#options
    const file = nameOfEntry(entry)
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
      context.log.info({ file: nameOfEntry(entry), now: path, offset }, 'reading the rest of a rotated file')
    this.#begin(tailer)
    return true
  }

  /** Called when no copy has the rest of a closed file. `isSought`: an unknown compressed file may be its copy. */
  #release(tailer: Tailer, { byKey }: Folder, isSought: boolean): void {
    if (tailer.copy) return
    const { files, hidden, onEnd } = this.#options
    tailer.becomes(blocks.lookedFor)
    tailer.to(byKey.get(tailer.key)?.path === tailer.path ? wheres.there : wheres.notThere)
    if (isSought) {
      files.forget(tailer)
      return
    }
    // The rest of the line may be in a copy that cannot be read now.
    if (tailer.truncatedSince !== undefined && tailer.pending > 0 && !hidden.mayHideRestOf(tailer)) onEnd(tailer)
    files.retire(tailer)
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
    losses.report({ file: nameOfEntry(entry), bytes: size - offset, since: saved.lookedAt, kind, msg })
  }
}

function beginningOf({ first }: Place): Pick<Entry, 'offset' | 'continues' | 'head' | 'tail'> {
  return { offset: 0, continues: false, head: fingerprint(first, 0, first.length), tail: NO_BYTES }
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
