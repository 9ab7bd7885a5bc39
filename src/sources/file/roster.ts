import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { SourceContext } from '../../core/component.js'
import { errorCode } from '../../core/errors.js'
import type { Decode } from '../../core/origin.js'
import type { Descriptors } from './descriptors.js'
import type { NameKind } from './discovery.js'
import { BirthTimes, byteBefore, FINGERPRINT_BYTES, fingerprintAt, judge, keyOf } from './identity.js'
import { emptyStart, type Position } from './positions.js'
import type { Entry, Saved } from './saved.js'
import type { Slices } from './slices.js'
import { Tailer, type TailerContext } from './tailer.js'
import type { Troubles } from './troubles.js'

const LF = 0x0a
/** How often positions of files that are away are looked through. */
const PRUNE_MS = 600_000

export interface RosterOptions {
  readonly context: SourceContext
  readonly decode: Decode
  readonly fromEnd: boolean
  /** How long a file that is away is watched for more. */
  readonly rotateWaitMs: number
  readonly saved: Saved
  readonly tailing: TailerContext
  readonly troubles: Troubles
  readonly descriptors: Descriptors
  readonly rotations: { value: number }
  /** The file may have more to read. */
  onReady(tailer: Tailer): void
  /** Nothing more will come: what is left of its last line goes out. */
  onEnd(tailer: Tailer): void
  onForget(tailer: Tailer): void
}

/**
 * Who is who: the files that are read, by inode and by name. Invariants: one tailer per inode, however many names lead
 * to it; a file that was found once is read to its end under whatever name, and kept until all of it is settled.
 */
export class Roster {
  readonly #options: RosterOptions
  readonly #tailers = new Map<string, Tailer>()
  readonly #paths = new Map<string, Tailer>()
  /** Which file had a name before it was renamed or deleted: what comes next under that name takes its place. */
  readonly #former = new Map<string, Tailer>()
  /** Where symbolic links lead: that is where appends are seen. */
  readonly #targets = new Map<string, Tailer>()
  readonly #births = new BirthTimes()
  #sweep = 0
  #pruneAt = 0

  constructor(options: RosterOptions) {
    this.#options = options
  }

  get tailers(): Iterable<Tailer> {
    return this.#tailers.values()
  }

  get size(): number {
    return this.#tailers.size
  }

  /** The file that was found under this name last. */
  at(path: string): Tailer | undefined {
    return this.#paths.get(path) ?? this.#targets.get(path)
  }

  /** The folders that symbolic links lead to. */
  *targetFolders(): Iterable<string> {
    for (const target of this.#targets.keys()) yield dirname(target)
  }

  /** Opens the file if it is not; false when it cannot be read now. */
  open(tailer: Tailer): boolean {
    const { descriptors, troubles } = this.#options
    descriptors.used(tailer)
    if (tailer.isOpen) return true
    try {
      descriptors.trim(0)
      if (tailer.open()) {
        if (tailer.failed === 'open') {
          tailer.failed = undefined
          troubles.over(tailer.path)
        }
        return true
      }
    } catch (error) {
      tailer.failed = 'open'
      this.#trouble(tailer.path, error)
    }
    descriptors.close(tailer)
    return false
  }

  #trouble(path: string, error: unknown): void {
    const code = errorCode(error)
    if (code === 'EMFILE' || code === 'ENFILE') this.#options.descriptors.refused()
    if (code !== 'ENOENT') this.#options.troubles.failed(path, 'open', error)
  }

  /** Looks at what is found under `files` now, and at what was found before and is not any more. */
  async sweep(files: ReadonlyMap<string, NameKind>, slices: Slices): Promise<void> {
    const { troubles, saved, context } = this.#options
    const first = this.#sweep++ === 0
    for (const [path, kind] of files) {
      if (slices.due) await slices.pause()
      if (kind !== 'same' || !this.#glance(path)) this.examine(path, kind)
    }
    for (const path of this.#paths.keys()) if (!files.has(path)) this.#vacate(path)
    if (first) await this.#findRotated(slices)
    for (const [path, tailer] of this.#former) this.#succeed(path, tailer)
    await this.#visitAway(slices)
    troubles.nextSweep()
    if (context.clock.now() < this.#pruneAt) return
    this.#pruneAt = context.clock.now() + PRUNE_MS
    saved.prune(context.clock.wall())
  }

  /** The quick look at a file that is open, where nobody can have renamed it. */
  #glance(path: string): boolean {
    const tailer = this.#paths.get(path)
    if (!tailer?.isOpen) return false
    this.#seen(tailer, path, tailer.glance())
    return true
  }

  #seen(tailer: Tailer, path: string, changed: boolean): void {
    tailer.seen = this.#sweep
    tailer.found = path
    tailer.awaySince = undefined
    if (changed || tailer.failed) this.#options.onReady(tailer)
  }

  /** What is at `path` now? */
  examine(path: string, kind: NameKind = 'unknown'): void {
    try {
      const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
      if (!stat) this.#vacate(path)
      else if (stat.isFile()) this.#examineFile(path, stat, kind)
      else if (!stat.isDirectory() || kind === 'unknown') this.#options.troubles.skipped(path, kindOf(stat))
    } catch (error) {
      this.#trouble(path, error)
    }
  }

  #examineFile(path: string, stat: BigIntStats, kind: NameKind): void {
    this.#births.learn(stat)
    let tailer = this.#tailers.get(keyOf(stat))
    // While a file is open nobody else gets its inode.
    if (tailer && !tailer.isOpen && this.#births.differ(stat, tailer.birth)) {
      this.#options.context.log.info({ file: tailer.path }, 'file is gone and its inode was given to another')
      this.#forget(tailer)
      tailer = undefined
    }
    tailer ??= this.#adopt(path, kind)
    if (!tailer) return
    if (this.#paths.get(path) !== tailer) this.#vacate(path)
    this.#paths.set(path, tailer)
    const former = this.#former.get(path)
    if (former) this.#succeed(path, former)
    this.#seen(tailer, path, tailer.look(Number(stat.size), stat.mtimeNs))
  }

  /** The name leads to another file now, or to none. */
  #vacate(path: string): void {
    const tailer = this.#paths.get(path)
    if (!tailer) return
    this.#paths.delete(path)
    this.#former.set(path, tailer)
  }

  /** A new file took a name: the rest of the one that had it comes first. */
  #succeed(path: string, former: Tailer): void {
    const tailer = this.#paths.get(path)
    if (tailer && tailer !== former && tailer.isNew) {
      this.#options.rotations.value++
      this.#options.context.log.info({ file: path }, 'file was rotated')
      tailer.after = former
    }
    if (tailer || !this.#tailers.has(former.key)) this.#former.delete(path)
  }

  /** Takes a file up that is not read yet. */
  #adopt(path: string, kind: NameKind, away?: Entry): Tailer | undefined {
    const { context, decode, tailing, descriptors, troubles, saved } = this.#options
    descriptors.trim(1)
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    let taken = false
    try {
      const stat = fstatSync(fd, { bigint: true })
      const known = this.#tailers.get(keyOf(stat))
      if (known || !stat.isFile()) return known
      const entry = this.#resumable(fd, stat, path, saved.take(stat.dev, stat.ino, away?.path ?? path))
      const start = entry ? positionOf(entry) : this.#start(fd, stat, path)
      // A file that was renamed keeps the name that its lines were written under.
      const tailer = new Tailer(path, stat, context.origin(decode, entry?.file ?? entry?.path ?? path), start, tailing)
      if (entry && entry.path !== path) this.#former.set(entry.path, tailer)
      tailer.open(fd)
      taken = true
      this.#tailers.set(tailer.key, tailer)
      descriptors.used(tailer)
      if (kind === 'link' || kind === 'unknown') this.#setTarget(tailer, path)
      troubles.over(path)
      context.checkpoints.changed()
      return tailer
    } finally {
      if (!taken) closeSync(fd)
    }
  }

  #setTarget(tailer: Tailer, path: string): void {
    const target = realpathSync(path)
    if (target === path) return
    tailer.target = target
    this.#targets.set(target, tailer)
  }

  /** The entry, if the file is still the one that it is about. */
  #resumable(fd: number, stat: BigIntStats, path: string, entry: Entry | undefined): Entry | undefined {
    if (!entry) return undefined
    const { offset, head, tail, birth } = entry
    const verdict = judge(fd, stat, { offset, head, tail, birth: BigInt(birth) }, this.#births)
    if (verdict === 'same') return entry
    if (verdict === 'truncated') this.#options.tailing.onTruncated(path)
    else this.#options.context.log.info({ file: path }, 'file is gone and its inode was given to another')
    return undefined
  }

  /** Where to begin with a file of which nothing is known. */
  #start(fd: number, stat: BigIntStats, path: string): Position {
    return this.#beginsAtEnd(stat, path) ? endOf(fd, Number(stat.size)) : emptyStart()
  }

  /** Files that were there when the source was first started, where the options say so. */
  #beginsAtEnd(stat: BigIntStats, path: string): boolean {
    const { fromEnd, saved } = this.#options
    if (!fromEnd || this.#sweep > 1 || saved.has(path) || saved.unreadable > 0) return false
    if (saved.savedAt === undefined) return true
    return this.#births.kept(stat) && Number(stat.birthtimeMs) < saved.savedAt
  }

  /** Files that were renamed while nothing ran: their rest is read under the name they have now. */
  async #findRotated(slices: Slices): Promise<void> {
    for (const [folder, entries] of this.#options.saved.byFolder()) {
      const wanted = new Map(entries.map(entry => [`${entry.dev}:${entry.ino}`, entry]))
      for await (const [path, stat] of search(folder, wanted, slices)) {
        const entry = wanted.get(keyOf(stat))!
        if (Number(stat.size) <= entry.offset || this.#births.differ(stat, BigInt(entry.birth))) continue
        try {
          const tailer = this.#adopt(path, 'plain', entry)
          if (tailer) this.#goOn(tailer, path)
        } catch (error) {
          this.#trouble(path, error)
        }
      }
    }
  }

  #goOn(tailer: Tailer, path: string): void {
    const { context, onReady } = this.#options
    context.log.info({ file: tailer.origin.path, now: path }, 'file was renamed, reading its rest')
    tailer.path = path
    tailer.found = path
    tailer.awaySince = context.clock.now()
    onReady(tailer)
  }

  /** What no name leads to: read on while it grows, then let go. */
  async #visitAway(slices: Slices): Promise<void> {
    const now = this.#options.context.clock.now()
    const closed = new Map<string, Tailer>()
    for (const tailer of this.#tailers.values()) {
      if (slices.due) await slices.pause()
      if (this.#paths.get(tailer.path) !== tailer && this.#paths.get(tailer.found) === tailer)
        tailer.path = tailer.found
      if (tailer.seen === this.#sweep) continue
      tailer.awaySince ??= now
      if (tailer.isOpen) this.#visit(tailer, now)
      else closed.set(tailer.key, tailer)
    }
    const folders = new Set([...closed.values()].flatMap(({ path, target }) => [dirname(path), dirname(target)]))
    for (const folder of folders) {
      for await (const [path, stat] of search(folder, closed, slices)) {
        const tailer = closed.get(keyOf(stat))!
        if (this.#births.differ(stat, tailer.birth)) continue
        closed.delete(tailer.key)
        tailer.path = path
        if (tailer.look(Number(stat.size), stat.mtimeNs) && this.open(tailer)) this.#goOn(tailer, path)
        else if (this.#isOver(tailer, now)) this.#retire(tailer)
      }
    }
    for (const tailer of closed.values()) if (this.#isOver(tailer, now)) this.#retire(tailer)
  }

  #visit(tailer: Tailer, now: number): void {
    const { onReady, onEnd, troubles } = this.#options
    let left = 0
    try {
      left = tailer.left()
    } catch (error) {
      tailer.failed = 'read'
      troubles.failed(tailer.path, 'read', error)
    }
    if (tailer.queued && !tailer.failed) tailer.awaySince = now
    else if (left !== 0 && !tailer.failed) {
      tailer.awaySince = now
      onReady(tailer)
    } else if (now - tailer.awaySince! < this.#options.rotateWaitMs) {
      if (tailer.failed) onReady(tailer)
    } else if (tailer.pending > 0 && !tailer.failed) onEnd(tailer)
    else if (this.#isOver(tailer, now)) this.#retire(tailer)
  }

  #isOver(tailer: Tailer, now: number): boolean {
    return now - tailer.awaySince! >= this.#options.rotateWaitMs && !tailer.unsettled && !tailer.reading
  }

  /** Lets go of a file that is away; its position stays known for when it comes back. */
  #retire(tailer: Tailer): void {
    const { context, saved } = this.#options
    const lost = tailer.unread
    if (lost > 0) {
      context.metrics.failed('vanished')
      const fields = { code: 'SLUICE_FILE_VANISHED', file: tailer.path, unread_bytes: lost }
      context.log.error(fields, 'file vanished before it was read to its end')
    }
    if (!tailer.unlinked) saved.put({ ...tailer.entry(), away: context.clock.wall() })
    this.#forget(tailer)
  }

  #forget(tailer: Tailer): void {
    const { descriptors, context, onForget } = this.#options
    onForget(tailer)
    descriptors.close(tailer)
    this.#tailers.delete(tailer.key)
    if (this.#targets.get(tailer.target) === tailer) this.#targets.delete(tailer.target)
    for (const path of [tailer.path, tailer.found]) if (this.#paths.get(path) === tailer) this.#paths.delete(path)
    context.checkpoints.changed()
  }
}

function positionOf({ offset, continues, head, tail }: Entry): Position {
  return { offset, continues, tail, content: { head } }
}

/** The position at the end of what a file holds. */
function endOf(fd: number, size: number): Position {
  const before = byteBefore(fd, size)
  return {
    offset: size,
    continues: before !== undefined && before !== LF,
    tail: fingerprintAt(fd, Math.max(0, size - FINGERPRINT_BYTES), size),
    content: { head: fingerprintAt(fd, 0, Math.min(size, FINGERPRINT_BYTES)) },
  }
}

/** The files of a folder whose key is wanted. */
async function* search(
  folder: string,
  wanted: ReadonlyMap<string, unknown>,
  slices: Slices,
): AsyncIterable<[string, BigIntStats]> {
  let names: string[] = []
  try {
    names = readdirSync(folder)
  } catch {
    // Gone or not to be read: then nothing of it is found.
  }
  for (const name of names) {
    if (slices.due) await slices.pause()
    const path = join(folder, name)
    let stat: BigIntStats | undefined
    try {
      stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    } catch {}
    if (stat?.isFile() && wanted.has(keyOf(stat))) yield [path, stat]
  }
}

function kindOf(stat: BigIntStats): string {
  if (stat.isDirectory()) return 'folder'
  if (stat.isFIFO()) return 'FIFO'
  return stat.isSocket() ? 'socket' : 'device'
}
