import type { BigIntStats } from 'node:fs'
import type { SourceContext } from '../../core/component.js'
import { statOrNone, unlessSilent } from '../../lib/files/disk/disk.js'
import type { TimeSlices } from '../../lib/time-slices.js'
import { fingerprintAt, identityOf, judge, same } from './identity.js'
import { openWithinSync } from './opening.js'
import { list, withKnown } from './rotation/candidates.js'
import { isStrong } from './rotation/match.js'
import type { Listed } from './rotation/owners.js'
import { type Entry, entryKey, type Saved } from './saved.js'

/**
 * Call at the start, before files are compared with saved entries. If the files were copied to another machine or
 * restored from a backup, changes the entries to describe the copies. If one saved file exists, nothing was copied: the
 * others were rotated or replaced.
 */
export async function followMoved(saved: Saved, context: SourceContext, slices: TimeSlices) {
  const files = await filesIfMoved(saved, slices)
  if (!files) return
  const open = (path: string) => openWithinSync(context.reach, path)
  const copies = new Map<Entry, Listed>()
  let again = 0
  for (const entry of [...saved.entries()]) {
    if (slices.due) await slices.pause()
    const one = entry.gone ? undefined : files.get(entry.path)
    if (!one || entry.head.bytes === 0) continue
    const compare = (fd: number) => likenessOf(fd, one, entry)
    const likeness = withKnown(one.path, one.key, compare, { keeps: false, open })
    if (likeness === 'copy') copies.set(entry, one)
    else if (likeness && entry.offset > 0) again++
    // All of it is read again, so no rest is lost.
    if (likeness === 'unsure') saved.replace(entry, { ...entry, size: undefined })
  }
  if (copies.size + again === 0) return
  context.log[again > 0 ? 'warn' : 'info'](
    { continued: copies.size, read_again: again },
    'no file has its saved device, inode and birth time; continuing in files that are certainly copies of the saved files, and reading others again from the beginning',
  )
  if (copies.size > 0) setIdentities(saved, copies)
  context.checkpoints.changed()
}

/**
 * The files in the folders of the entries, by path. Undefined if a saved file exists, or may exist. Devices may be
 * renumbered, so inode and birth time identify a file. In a copy, a device and inode may be equal by chance, so a file
 * with another birth time is not the saved one.
 */
async function filesIfMoved(saved: Saved, slices: TimeSlices) {
  const entries = [...saved.entries()].filter(({ gone }) => !gone)
  const known = new Set(entries.map(({ ino, birth }) => `${ino}:${birth}`))
  const isKnown = (stat: BigIntStats) => known.has(`${stat.ino}:${stat.birthtimeNs}`) || saved.known(stat) !== undefined
  const files = new Map<string, Listed>()
  try {
    for (const { path } of entries) {
      if (slices.due) await slices.pause()
      const stat = statOrNone(path)
      if (stat && isKnown(stat)) return undefined
    }
    for (const folder of saved.byFolder().folders)
      for (const one of await list(folder, slices)) {
        if (isKnown(one.stat)) return undefined
        files.set(one.path, one)
      }
    return files
  } catch (error) {
    unlessSilent(error)
    return undefined
  }
}

/** Returns undefined if the file begins differently, and `begins` if it does not hold all that was read. */
function likenessOf(fd: number, { stat }: Listed, entry: Entry) {
  if (!same(fingerprintAt(fd, 0, entry.head.bytes), entry.head)) return undefined
  if (judge(fd, stat, { ...entry, birth: 0n }) !== 'same') return 'begins'
  // A program may write the same few lines at each start. Only copying sets a time before the birth of the file.
  const isSure = isStrong({ head: entry.head, position: entry }) || stat.mtimeNs < stat.birthtimeNs
  return isSure && stat.birthtimeNs > 0n ? 'copy' : 'unsure'
}

function setIdentities(saved: Saved, copies: ReadonlyMap<Entry, Listed>): void {
  const keys = new Map(Array.from(copies, ([entry, { key }]) => [entryKey(entry), key]))
  const entries = [...saved.entries()].filter(entry => copies.has(entry) || entry.claimed !== undefined)
  // A new inode may be the old one of another entry.
  for (const entry of entries) saved.remove(entry)
  for (const entry of entries) {
    const one = copies.get(entry)
    // Compressed copies are found by their content.
    const claimed = entry.claimed === undefined ? undefined : keys.get(entry.claimed)
    saved.put({ ...entry, ...(one && identityOf(one.stat)), claimed })
  }
}
