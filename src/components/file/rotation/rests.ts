import type { BigIntStats } from 'node:fs'
import { dirname } from 'node:path'
import type { SourceContext } from '../../../core/component.js'
import { errorCode } from '../../../core/errors.js'
import { unlessSilent, withFile } from '../../../lib/files/disk/disk.js'
import { SilentFileSystem } from '../../../lib/files/disk/file-systems.js'
import { COPY_ONLY, FINGERPRINT_BYTES, fingerprint, fingerprintAt, keyOf, NO_BYTES, same } from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import type { Entry } from '../saved.js'
import { type Candidates, type CandidatesOptions, type Compressed, isCompressed, type Place } from './candidates.js'
import { Copy } from './copy.js'
import type { Hidden } from './hidden.js'
import type { SearchOptions } from './search.js'
import { nameOf } from './subjects.js'

/** A byte of gzip inflates to no more than this. The size of a damaged file may say more. */
const MOST_INFLATED = 1032

interface RestsOptions extends SearchOptions, CandidatesOptions {
  readonly candidates: Candidates
  readonly hidden: Hidden
  /** Called when a file was just renamed: it is found again by the next search of its folder. */
  searchAgain(folder: string): void
}

/** Reads on where the rest of a file was found: under another name, in a copy, or in a file that was never seen. */
export class Rests {
  readonly #options: RestsOptions

  constructor(options: RestsOptions) {
    this.#options = options
  }

  /** Reads a file that grew, and still exists under another name. */
  resume(path: string, entry: Entry): void {
    try {
      const tailer = this.#options.files.adopt(path, 'plain', entry)
      if (!tailer) return
      this.#options.files.precede(nameOf(entry), tailer)
      this.goOn(tailer, path)
    } catch (error) {
      this.#failed(path, error)
      this.#options.hidden.addUnopened(entry)
    }
  }

  /** Reads the rest of a file that was renamed. */
  goOn(tailer: Tailer, path: string): void {
    this.#options.context.log.info({ file: tailer.origin.path, now: path }, 'file was renamed; reading its rest')
    this.#follow(tailer, path)
  }

  /** Reads on in a copy, unless that has nothing new. */
  found(tailer: Tailer, place: Place, isRest: boolean): void {
    const { files, onReady, context } = this.#options
    if (isRest) {
      const copy = isCompressed(place) ? this.#copyOf(place, tailer.at) : undefined
      if (!files.readOn(tailer, copy ?? place)) {
        this.#options.searchAgain(dirname(place.path))
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
    if (!place.isCompressed) this.putEnd(place, tailer.origin.path!)
  }

  #copyOf(place: Compressed, offset: number): Copy {
    return new Copy(place, this.#options, this.#options.candidates.take(place.stat, offset))
  }

  /** Remembers a plain copy of what was read, so that it is known if it grows. */
  putEnd({ path, stat, size, first }: Place, file: string): void {
    const head = fingerprint(first, 0, first.length)
    const tail = withFile(path, fd => fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size)) ?? NO_BYTES
    // Its modification time decides how long its position is kept.
    const away = Number(stat.mtimeNs) / 1e6
    const position = { offset: size, continues: false, head, tail, claimed: keyOf(stat) }
    this.#options.saved.put({ path, file, ...identityOf(stat), ...position, away })
  }

  /** Reads a file that was not seen before. False: it was just renamed, and must be found again. */
  readUnseen(name: string, place: Place): boolean {
    const { path, stat, first } = place
    if (isCompressed(place)) {
      this.inflate(name, place)
      return true
    }
    const head = fingerprint(first, 0, first.length)
    const position = { offset: 0, continues: false, head, tail: NO_BYTES }
    return this.#begin(path, { path, file: name, ...identityOf(stat), ...position, size: Number(stat.size) })
  }

  /** Whether the compressed file is or was read under another name: it may have several, also in other folders. */
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

  /** Reads a compressed file from its beginning. Its events have this name. */
  inflate(name: string, place: Compressed): void {
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

  /** Reads on in a copy of the file of an entry. */
  readOn(entry: Entry, place: Place): void {
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
    else if (!this.#begin(path, moved, entry)) this.#options.searchAgain(dirname(path))
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
      this.#follow(tailer, path)
      return true
    } catch (error) {
      if (error instanceof SilentFileSystem) {
        saved.remove(entry)
        if (former) saved.put(former)
      }
      return this.#failed(path, error)
    }
  }

  #follow(tailer: Tailer, path: string): void {
    const { context, onReady } = this.#options
    tailer.path = path
    tailer.found = path
    tailer.awaySince = context.clock.now()
    onReady(tailer)
  }

  /** Returns whether it is known what became of the file. */
  #failed(path: string, error: unknown): boolean {
    unlessSilent(error)
    // It was just renamed.
    if (errorCode(error) === 'ENOENT') {
      this.#options.searchAgain(dirname(path))
      return false
    }
    this.#options.problems.failed(path, 'open', error)
    return true
  }
}

/** Identifies a compressed file: its inode may be given to another one. */
export function stateOf({ key, birth, changedAt }: Pick<Place, 'key' | 'birth' | 'changedAt'>): string {
  return `${key}@${birth ?? changedAt}`
}

/** What stands for the birth time of a file only seen as a compressed copy. */
function birthOf({ changedAt }: Place): string {
  return String(Math.round(changedAt * 1e6))
}

function report({ origin, unread, at }: Tailer, place: Place, { log }: SourceContext): void {
  const fields = { file: origin.path, copy: place.path, offset: at, unread_bytes: unread }
  if (place.isCompressed) log.info(fields, 'file is gone; searching a compressed copy for its rest')
  else if (unread > 0) log.info(fields, 'reading the rest of a truncated file from its copy')
  else log.debug(fields, 'the copy of a truncated file was read to its end')
}

export function identityOf({ dev, ino, birthtimeNs }: BigIntStats): Pick<Entry, 'dev' | 'ino' | 'birth'> {
  return { dev: String(dev), ino: String(ino), birth: String(birthtimeNs) }
}
