import { dirname } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import { orNone, unlessSilent } from '../../../lib/files/disk/disk.js'
import type { Slices } from '../../../lib/slices.js'
import { formatOfName } from '../compression.js'
import type { Descriptors } from '../descriptors.js'
import { keyOf, leadsTo } from '../identity.js'
import type { FileOptions } from '../options.js'
import type { Tailer } from '../reading/tailer.js'
import { list, namesIn } from './candidates.js'
import type { Search, SearchOptions } from './search.js'

/** Errors of a descriptor whose file was removed on the server, or whose file system is gone. */
const STALE = ['ESTALE', 'ENOTCONN']

interface DetachedFilesOptions extends Omit<SearchOptions, 'remote' | 'beginnings'> {
  readonly descriptors: Descriptors
  readonly search: Search
  readonly options: FileOptions
}

/**
 * Files without a matching name, because they were renamed, deleted, compressed or excluded. Invariants: a file is read
 * while it grows. It is released when it has been quiet for a while, was read to its end, and all of it is settled. If
 * a file no longer matches, only its rest is read. Another file that took over an inode is never read.
 */
export class DetachedFiles {
  readonly #options: DetachedFilesOptions

  constructor(options: DetachedFilesOptions) {
    this.#options = options
  }

  /**
   * Finds the new names of open files that were renamed. Returns the files that the next start could not find, because
   * they have no name or a name in another folder.
   */
  async locate(tailers: Iterable<Tailer>, slices: Slices): Promise<Tailer[]> {
    const sought = new Map<string, Tailer>()
    for (const tailer of tailers) {
      if (slices.due) await slices.pause()
      if (tailer.isOpen && !tailer.copy && !leadsTo(tailer.path, tailer.key, true)) sought.set(tailer.key, tailer)
    }
    for (const folder of new Set([...sought.values()].map(({ path }) => dirname(path)))) {
      const unexamined = new Set<string>()
      try {
        for (const { path, stat } of await list(folder, slices, unexamined)) {
          const tailer = sought.get(keyOf(stat))
          if (!tailer || dirname(tailer.path) !== folder) continue
          tailer.rename(path)
          sought.delete(tailer.key)
        }
      } catch {
        unexamined.add(folder)
      }
      // What cannot be listed or examined says nothing about the files.
      for (const [key, { path, unlinked }] of unexamined.size > 0 ? sought : [])
        if (dirname(path) === folder && !unlinked) sought.delete(key)
    }
    return [...sought.values()]
  }

  /** Handles the files that the sweep did not find. Returns those that have to be searched for. */
  async visit(tailers: readonly Tailer[], slices: Slices): Promise<Tailer[]> {
    const { clock, checkpoints } = this.#options.context
    const now = clock.now()
    const closed: Tailer[] = []
    for (const tailer of tailers) {
      if (slices.due) await slices.pause()
      // Saves the size of the file, so that the next start after a kill can count lost bytes.
      if (tailer.leftName()) checkpoints.changed()
      if (tailer.copy?.isLost) tailer.leaveCopy()
      tailer.copy?.look()
      if (!tailer.isOpen || !this.#visit(tailer, now)) closed.push(tailer)
    }
    return closed
  }

  /** Handles an open file. Returns false if its descriptor is of no use any more, and the file is closed. */
  #visit(tailer: Tailer, now: number): boolean {
    const { onReady, onEnd, problems, options, descriptors } = this.#options
    if (tailer.isQueued && !tailer.failed) {
      tailer.stirred()
      return true
    }
    let left = 0
    try {
      left = tailer.left()
    } catch (error) {
      unlessSilent(error)
      tailer.fail('read')
      problems.failed(tailer.path, 'read', error)
      if (STALE.includes(errorCode(error) ?? '')) {
        descriptors.close(tailer)
        return false
      }
    }
    // It is unknown whether a postponed file grew in the meantime.
    if (tailer.isPostponed) tailer.stirred()
    tailer.wasLookedFor()
    if (left !== 0 && !tailer.failed) {
      tailer.stirred()
      onReady(tailer)
    } else if (now - quietSince(tailer) < options.rotate_wait) {
      if (tailer.failed) onReady(tailer)
    } else if (tailer.pending > 0 && !tailer.failed) onEnd(tailer)
    else this.retire(tailer)
    return true
  }

  /** Releases a file that has been quiet for long enough. Keeps its position, because the file may reappear. */
  retire(tailer: Tailer): void {
    const { context, saved, options, files, search } = this.#options
    if (context.clock.now() - quietSince(tailer) < options.rotate_wait || tailer.unsettled || tailer.reading) return
    const { unlinked } = tailer
    // Keep the entry, because without it the next run could match another file to the copy of this file.
    const mayBeCopied = unlinked && mayHoldCopies(dirname(tailer.path))
    const mayBeHidden = tailer.unread > 0 && search.mayHideRestOf(tailer)
    if (tailer.unread > 0 && !mayBeHidden) this.#reportLost(tailer)
    const entry = { ...tailer.entry(), cut: tailer.copy?.cut, ...(!mayBeHidden && { away: context.clock.wall() }) }
    if (!unlinked) saved.put(entry)
    else if (mayBeCopied) saved.put({ ...entry, gone: true })
    files.forget(tailer)
  }

  #reportLost({ origin, path, unread: bytes, truncatedSince, awaySince }: Tailer): void {
    const { losses, context } = this.#options
    const file = origin.path ?? path
    if (truncatedSince === undefined) {
      const since = context.clock.wall() - (context.clock.now() - awaySince!)
      const msg = 'file vanished before it was read to its end'
      losses.report({ file, bytes, since, kind: 'vanished', msg })
    } else {
      const msg = 'file was truncated before it was read to its end, and no copy has the rest'
      losses.report({ file, bytes, since: truncatedSince, kind: 'truncated', msg })
    }
  }
}

/** Whether there are compressed files in the folder, or it cannot be listed. */
function mayHoldCopies(folder: string): boolean {
  const names = orNone(() => namesIn(folder))
  return names === undefined || names.some(name => formatOfName(name) !== undefined)
}

/** Since when the file has been missing and has not grown. */
function quietSince({ awaySince, grownAt }: Tailer): number {
  return Math.max(awaySince!, grownAt)
}
