import { type Identity, keyOf } from '../identity.js'
import type { Copy } from '../rotation/copy.js'

/** Which file it is that is read, where it is, and what is to be done first. */
export class Tracked {
  /** What it is known by: its device and inode, while they are its own. */
  key = ''
  birth = 0n
  /** Where the file is now, as far as known. */
  path = ''
  /** The name that led to it last. */
  found = ''
  /** The path without symbolic links. */
  target = ''
  /** The size when it was last looked at. */
  size = 0
  /** The largest size that was seen while the file surely held what was read of it. */
  sureSize = 0
  /** The time of its last change, at the last sweep, in nanoseconds. */
  changedAt = 0n
  /** Since when it has not been found under a name that is to be read, and has not grown. */
  awaySince: number | undefined
  /** The number of the sweep that found it last. */
  seen = 0
  /** In the reader's queue. */
  queued = false
  /** The file that this one took the name of: its rest comes first. */
  after: Tracked | undefined
  /** What it is read from when it is gone itself. */
  copy: Copy | undefined
  /** The device and inode of the copy that it was read from, when that was renamed. */
  copyKey: string | undefined
  /** Not to be read before the one that had its name was looked for. */
  held = false
  /** Of one whose file was truncated: when that still held what was read, wall clock in milliseconds. */
  truncatedSince: number | undefined
  /** Of the same: its copies were looked for. */
  wasSought = false
  /** That the rest of it is lost was reported. */
  isReported = false
  /** What failed when it was last tried. `silent`: its file system did not answer. */
  failed: 'open' | 'read' | 'silent' | undefined
  /** When it was found under another name than before. */
  movedAt = Number.NEGATIVE_INFINITY

  constructor(path: string, stat: Identity) {
    this.setFile(path, stat)
  }

  /** It is this file from now on. */
  setFile(path: string, stat: Identity): void {
    this.key = keyOf(stat)
    this.birth = stat.birthtimeNs
    this.path = path
    this.found = path
    this.target = path
    this.size = 0
    this.sureSize = 0
  }

  /** When the file gets shorter, what was seen of it is still missing. */
  sees(size: number): void {
    this.size = Math.max(this.size, size)
  }

  /** Whether it comes after `other`, or after one that does. */
  waitsFor(other: Tracked): boolean {
    for (let before: Tracked | undefined = this; before; before = before.after) if (before === other) return true
    return false
  }
}
