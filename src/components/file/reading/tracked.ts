import { type Identity, isCopyOnly, keyOf } from '../identity.js'
import type { Copy } from '../rotation/copy.js'

/** How far a file is being caught up with: what was in it when its reading began again, after a start or a stall. */
class CatchUp {
  #end = 0

  /** Everything before this offset is backlog. */
  until(end: number): void {
    this.#end = Math.max(this.#end, end)
  }

  /** Whether what begins at this offset is backlog. */
  includes(offset: number): boolean {
    return offset < this.#end
  }

  /** The part of the `left` bytes from `at` that may be read at once: it ends where catching up ends. */
  portion(at: number, left: number): number {
    return at < this.#end ? Math.min(left, this.#end - at) : left
  }
}

/** The identity and location of a file, and its state in the search for rotated files. */
export class Tracked {
  /** Identifies the file: its device and inode, while they are its own. */
  key = ''
  birth = 0n
  /** Last known path of the file. */
  path = ''
  /** The name under which it was last found. */
  found = ''
  /** The path without symbolic links. */
  target = ''
  /** Last known size. */
  size = 0
  /** The largest size seen while the file certainly contained what was read from it. */
  sureSize = 0
  /** Modification time at the last sweep, in nanoseconds. */
  changedAt = 0n
  /** Since when it has not been found under a matching name and has not grown. */
  awaySince: number | undefined
  /** The number of the sweep that last found it. */
  seen = 0
  /** The number of the last sweep that found it as it was at the last read. */
  unchanged = 0
  readonly catchUp = new CatchUp()
  /** Whether it is in the reader's queue, which has the links. */
  queued = false
  previous: this | undefined
  next: this | undefined
  list: unknown
  /** Whether files before it in its lineage come first: not after it was at its end, until they get more. */
  isBehind = true
  /** Whether what programs still wrote to those was looked for since this file was at its end. */
  sawEarlier = false
  /** The copy that is read after the file itself is gone. */
  copy: Copy | undefined
  /** Device and inode of the file that was found to be its copy. */
  claimed: string | undefined
  /** Whether its first bytes are not compared with those of other files yet, because it was empty. */
  isUncompared = false
  /** Whether reading must wait for the search for the former file with this name. */
  held = false
  /** When it contained this for the first time, as far as this run knows, wall clock in milliseconds. */
  readonly firstSeen: number
  /** After a truncation: when the file still contained what was read, wall clock in milliseconds. */
  truncatedSince: number | undefined
  /**
   * What failed last. `silent`: the file system did not respond. `moved`: the file was not under its path any more.
   * `waits`: too many files were open.
   */
  failed: 'open' | 'read' | 'silent' | 'moved' | 'waits' | undefined
  /** When it was found under another name. */
  movedAt = Number.NEGATIVE_INFINITY

  constructor(path: string, stat: Identity, firstSeen: number) {
    this.firstSeen = firstSeen
    this.setFile(path, stat)
  }

  /** Associates the tailer with a file. */
  setFile(path: string, stat: Identity): void {
    this.key = keyOf(stat)
    this.birth = stat.birthtimeNs
    this.path = path
    this.found = path
    this.target = path
    this.size = 0
    this.sureSize = 0
  }

  /** If the file shrinks, the bytes seen before are still missing, so the size never decreases. */
  sees(size: number): void {
    this.size = Math.max(this.size, size)
  }

  /** Whether a sweep must look for it before it can be read. Then the files that follow it wait, too. */
  get isPostponed(): boolean {
    return this.held || this.failed === 'silent' || this.failed === 'moved' || this.failed === 'waits'
  }

  /** Called after it was looked for, or is no longer read. */
  wasLookedFor(): void {
    if (this.failed === 'silent' || this.failed === 'moved') this.failed = undefined
  }

  /** Nothing is left of what came before it, or of itself. */
  atEnd(): void {
    this.isBehind = false
    this.sawEarlier = false
  }

  /** Whether it was made after `other`. */
  isNewerThan(other: Tracked): boolean {
    // Its inode may be older than what was copied from it before.
    if (this.truncatedSince !== undefined)
      return (other.copy?.changedAt ?? Number(other.changedAt) / 1e6) <= this.firstSeen
    if (isCopyOnly(this.key) === isCopyOnly(other.key)) return this.birth > other.birth
    return isCopyOnly(other.key) ? this.#follows(other.birth) : !other.#follows(this.birth)
  }

  /**
   * Whether it was made when a file was rotated that was last written at `writtenAt`. Programs still write to a renamed
   * file for a while, and copies may have rounded times: what counts is which end of its own life that is closer to.
   */
  #follows(writtenAt: bigint): boolean {
    return this.birth > writtenAt || writtenAt - this.birth < this.changedAt - writtenAt
  }
}
