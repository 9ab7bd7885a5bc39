import { dirname } from 'node:path'
import { unlessSilent } from '../../../lib/files/disk/disk.js'
import { SilentFileSystem } from '../../../lib/files/disk/file-systems.js'
import { FINGERPRINT_BYTES, keyOf, leadsTo } from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import type { Slices } from '../slices.js'
import { Copy } from './copy.js'
import { goOn, type SearchOptions } from './missing.js'
import { search } from './search.js'
import type { Sibling } from './siblings.js'

export interface DetachedFilesOptions extends SearchOptions {
  /** How long a missing file is kept open and watched for growth. */
  readonly rotateWaitMs: number
  /** Called when no more bytes will come: the rest of the last line is delivered. */
  onEnd(tailer: Tailer): void
  /** Continues reading a closed, missing file in a copy; false if that cannot be read. */
  readOn(tailer: Tailer, place: Sibling | Copy): boolean
  forget(tailer: Tailer): void
  /** Whether all copies of the file of this name are matched. */
  isSettled(name: string): boolean
}

/**
 * Files without a matching name: renamed, deleted, compressed, or excluded. Invariants: a file is read while it grows,
 * and released when it has been quiet for a while, is read to its end, and all of it is settled. Outside the patterns,
 * only the rest of a file that matched before is read, never another file with its inode.
 */
export class DetachedFiles {
  readonly #options: DetachedFilesOptions

  constructor(options: DetachedFilesOptions) {
    this.#options = options
  }

  /** The open files that the next start could not find: they have no name, or a name in another folder. */
  async unfindable(tailers: Iterable<Tailer>, slices: Slices): Promise<Tailer[]> {
    const sought = new Map<string, Tailer>()
    for (const tailer of tailers) {
      if (slices.due) await slices.pause()
      if (tailer.isOpen && !tailer.copy && !leadsTo(tailer.path, tailer.key, true)) sought.set(tailer.key, tailer)
    }
    for (const folder of new Set([...sought.values()].map(({ path }) => dirname(path)))) {
      try {
        for await (const [path, stat] of search(folder, sought, slices))
          if (dirname(sought.get(keyOf(stat))!.path) === dirname(path)) sought.delete(keyOf(stat))
      } catch (error) {
        if (!(error instanceof SilentFileSystem)) throw error
        for (const [key, { path }] of sought) if (dirname(path) === folder) sought.delete(key)
      }
    }
    return [...sought.values()]
  }

  /** Finds the new names of open files that were renamed, so that they can be closed. */
  async locate(tailers: readonly Tailer[], slices: Slices): Promise<void> {
    const sought = new Map<string, Tailer>()
    for (const tailer of tailers)
      if (tailer.isOpen && !tailer.copy && !leadsTo(tailer.path, tailer.key, true)) sought.set(tailer.key, tailer)
    for (const folder of new Set([...sought.values()].map(({ path }) => dirname(path)))) {
      for await (const [path, stat] of search(folder, sought, slices)) {
        const tailer = sought.get(keyOf(stat))!
        tailer.path = path
        tailer.found = path
      }
    }
  }

  /** Handles the files that the sweep did not find. */
  async visit(tailers: readonly Tailer[], slices: Slices): Promise<void> {
    const { clock, checkpoints } = this.#options.context
    const now = clock.now()
    const closed = new Map<string, Tailer>()
    for (const tailer of tailers) {
      if (slices.due) await slices.pause()
      if (tailer.awaySince === undefined) {
        tailer.awaySince = now
        // With its size, the start after a kill counts what is lost.
        checkpoints.changed()
      }
      if (tailer.copy?.isLost) {
        // An unconfirmed candidate may be the copy of another file, or of an unseen one.
        if (tailer.copy.isFound) tailer.copyKey = tailer.copy.key
        tailer.copy = undefined
      }
      if (tailer.isOpen) this.#visit(tailer, now)
      else closed.set(tailer.key, tailer)
    }
    if (closed.size > 0) await this.#visitClosed(closed, now, slices)
  }

  #visit(tailer: Tailer, now: number): void {
    const { onReady, onEnd, problems, rotateWaitMs } = this.#options
    if (tailer.queued && !tailer.failed) {
      tailer.awaySince = now
      return
    }
    let left = 0
    try {
      left = tailer.left()
    } catch (error) {
      unlessSilent(error)
      tailer.failed = 'read'
      problems.failed(tailer.path, 'read', error)
    }
    // It is unknown whether the file was quiet in the meantime.
    if (tailer.isPostponed) tailer.awaySince = now
    tailer.wasLookedFor()
    if (left !== 0 && !tailer.failed) {
      tailer.awaySince = now
      onReady(tailer)
    } else if (now - quietSince(tailer) < rotateWaitMs) {
      if (tailer.failed) onReady(tailer)
    } else if (tailer.pending > 0 && !tailer.failed) onEnd(tailer)
    else this.#retireIfOver(tailer, now)
  }

  /** Finds files that were closed to save descriptors under their new names. */
  async #visitClosed(closed: Map<string, Tailer>, now: number, slices: Slices): Promise<void> {
    const { births, open, forget, readOn, onReady, onEnd, rotated, tailers } = this.#options
    const folders = new Set([...closed.values()].flatMap(({ path, target }) => [dirname(path), dirname(target)]))
    for (const folder of folders) {
      for await (const [path, stat] of search(folder, closed, slices)) {
        const tailer = closed.get(keyOf(stat))!
        if (births.differ(stat, tailer.birth)) continue
        tailer.path = path
        tailer.found = path
        if (!tailer.look(Number(stat.size), stat.mtimeNs)) continue
        closed.delete(tailer.key)
        if (!open(tailer)) {
          tailer.awaySince = now
          continue
        }
        if (births.kept(stat) || tailer.verify()) goOn(tailer, path, this.#options)
        else forget(tailer)
      }
    }
    rotated.begin()
    const names = new Map([...folders].map(folder => [folder, rotated.siblings.namesIn(folder)]))
    const known = [...closed.values()].sort((a, b) => b.sought.head.bytes - a.sought.head.bytes)
    const isUnsure = known.some(({ head }) => head.bytes < FINGERPRINT_BYTES)
    for (const folder of isUnsure ? folders : []) await rotated.claimCopies(folder, [...tailers()], slices)
    for (const tailer of known) {
      if (slices.due) await slices.pause()
      const folder = dirname(tailer.path)
      const { sought, truncatedSince } = tailer
      const place = await rotated.find(folder, { ...sought, truncatedSince }, slices)
      if (place ? !readOn(tailer, place) : rotated.siblings.namesIn(folder) !== names.get(folder)) continue
      if (!place && truncatedSince !== undefined && !tailer.wasSought) await rotated.claimShort(folder, tailer, slices)
      tailer.wasSought = true
      tailer.wasLookedFor()
      if (place) {
        this.#report(tailer, place)
        tailer.awaySince = now
        onReady(tailer)
        continue
      }
      // No copy contains the rest of its last line.
      if (tailer.truncatedSince !== undefined && tailer.pending > 0) onEnd(tailer)
      this.#retireIfOver(tailer, now)
    }
  }

  #report({ origin, unread, at }: Tailer, place: Sibling | Copy): void {
    const { log } = this.#options.context
    const fields = { file: origin.path, copy: place.path, offset: at, unread_bytes: unread }
    if (place instanceof Copy) log.info(fields, 'file is gone; searching a compressed copy for its rest')
    else if (unread > 0) log.info(fields, 'reading the rest of a truncated file from its copy')
    else log.debug(fields, 'the copy of a truncated file was read to its end')
  }

  /** Releases a file. Its position is kept in case it reappears. */
  #retireIfOver(tailer: Tailer, now: number): void {
    const { context, saved, rotated, rotateWaitMs, forget, isSettled } = this.#options
    if (now - quietSince(tailer) < rotateWaitMs || tailer.unsettled || tailer.reading) return
    // Without what is known of it, a copy that is shorter than what was read would be read again.
    if (tailer.truncatedSince !== undefined && !tailer.isOpen && !isSettled(tailer.origin.path!)) return
    const { unlinked } = tailer
    // Keep the entry, so that the next run does not match its copy to another file.
    const mayBeCopied = unlinked && rotated.copies.areIn(dirname(tailer.path))
    const isHidden = tailer.unread > 0 && rotated.copies.mayHide(dirname(tailer.path), tailer.sought)
    if (tailer.unread > 0 && !isHidden) this.#reportLost(tailer)
    const entry = { ...tailer.entry(), ...(!isHidden && { away: context.clock.wall() }) }
    if (!unlinked) saved.put(entry)
    else if (mayBeCopied) saved.put({ ...entry, gone: true })
    forget(tailer)
  }

  #reportLost({ origin, path, unread, truncatedSince }: Tailer): void {
    const { losses } = this.#options
    if (truncatedSince === undefined) {
      losses.report({ file: path, bytes: unread, kind: 'vanished', msg: 'file vanished before it was read to its end' })
    } else {
      const msg = 'file was truncated before it was read to its end, and no copy has the rest'
      losses.report({ file: origin.path!, bytes: unread, kind: 'truncated', msg })
    }
  }
}

/** Since when it has been missing without growing. */
function quietSince({ awaySince, growth }: Tailer): number {
  return Math.max(awaySince!, growth.at)
}
