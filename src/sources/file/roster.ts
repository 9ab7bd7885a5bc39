import { type BigIntStats, closeSync, constants, fstatSync, openSync, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { SourceContext } from '../../core/component.js'
import { errorCode } from '../../core/errors.js'
import type { Decode } from '../../core/origin.js'
import { Away } from './away.js'
import type { Copy } from './copy.js'
import type { Descriptors } from './descriptors.js'
import type { NameKind } from './discovery.js'
import { BirthTimes, keyOf, openKnown } from './identity.js'
import type { Entry, Saved } from './saved.js'
import { Slices } from './slices.js'
import { judgeEntry, positionOf, startOf } from './start.js'
import { Tailer } from './tailer.js'
import type { TailerContext } from './tailing.js'
import type { Troubles } from './troubles.js'

/** How often files that are away are looked for in their folders: one may have been written to after it was let go. */
const THOROUGH_MS = 600_000

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
  /** Files taken up that no saved checkpoint knows of; reset by who saves one. */
  unsaved = 0
  readonly #options: RosterOptions
  readonly #tailers = new Map<string, Tailer>()
  readonly #paths = new Map<string, Tailer>()
  /** Which file had a name before it was renamed or deleted: what comes next under that name takes its place. */
  readonly #former = new Map<string, Tailer>()
  /** Where symbolic links lead: that is where appends are seen. */
  readonly #targets = new Map<string, Tailer>()
  /** New files, where those that had their names are closed. */
  readonly #held = new Set<Tailer>()
  readonly #births = new BirthTimes()
  readonly #away: Away
  #sweep = 0
  #thoroughAt = 0

  constructor(options: RosterOptions) {
    this.#options = options
    this.#away = new Away({
      ...options,
      births: this.#births,
      adopt: (path, entry) => this.#adopt(path, 'plain', entry),
      adoptCopy: (entry, copy) => this.#adoptCopy(entry, copy),
      readOn: (tailer, copy) => this.#rekey(tailer, () => tailer.readOn(copy)),
      open: tailer => this.open(tailer),
      forget: tailer => this.#forget(tailer),
    })
  }

  /** Those of the open files that the next start could not find. */
  unfindable(): Promise<Tailer[]> {
    return this.#away.unfindable(this.#tailers.values(), new Slices(this.#options.context.clock))
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
    if (tailer.copy) return true
    const { descriptors, troubles } = this.#options
    try {
      if (!tailer.isOpen) {
        descriptors.trim(1)
        const fd = openKnown(tailer.path, tailer.key, tailer.birth, this.#births)
        if (fd === undefined) return false
        tailer.open(fd)
      }
    } catch (error) {
      tailer.failed = 'open'
      this.#trouble(tailer.path, error)
      return false
    }
    descriptors.used(tailer)
    if (tailer.failed === 'open') {
      tailer.failed = undefined
      troubles.over(tailer.path)
    }
    return true
  }

  #trouble(path: string, error: unknown): void {
    const code = errorCode(error)
    if (code === 'EMFILE' || code === 'ENFILE') this.#options.descriptors.refused()
    if (code !== 'ENOENT') this.#options.troubles.failed(path, 'open', error)
  }

  /** Looks at what is found under `files` now, and at what was found before and is not any more. */
  async sweep(files: ReadonlyMap<string, NameKind>, slices: Slices): Promise<void> {
    const { troubles, saved, context } = this.#options
    this.#sweep++
    for (const [path, kind] of files) {
      if (slices.due) await slices.pause()
      if (kind !== 'same' || !this.#glance(path)) this.examine(path, kind)
    }
    for (const path of this.#paths.keys()) if (!files.has(path)) this.#vacate(path)
    const now = context.clock.now()
    const thorough = now >= this.#thoroughAt
    if (thorough) await this.#away.find(this.#tailers.values(), slices)
    for (const [path, tailer] of this.#former) this.#succeed(path, tailer)
    await this.#away.visit(this.#unseen(), slices)
    this.#release()
    troubles.nextSweep()
    if (!thorough) return
    this.#thoroughAt = now + THOROUGH_MS
    saved.prune(context.clock.wall())
  }

  /** Files that wait for the next sweep. */
  get holds(): boolean {
    return this.#held.size > 0
  }

  #release(): void {
    for (const tailer of this.#held) {
      tailer.held = false
      this.#options.onReady(tailer)
    }
    this.#held.clear()
  }

  /** What this sweep did not come across. */
  #unseen(): Tailer[] {
    const unseen: Tailer[] = []
    for (const tailer of this.#tailers.values()) {
      const { path, found } = tailer
      if (this.#paths.get(path) !== tailer && this.#paths.get(found) === tailer) {
        tailer.path = found
        tailer.movedAt = this.#options.context.clock.now()
        if (tailer.pending > 0 || tailer.growth.parked) this.#options.onReady(tailer)
      }
      if (tailer.seen !== this.#sweep) unseen.push(tailer)
    }
    return unseen
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
    if (tailer && !tailer.isOpen && this.#births.differ(stat, tailer.birth, path)) {
      this.#options.context.log.info({ file: tailer.path }, 'file is gone and its inode was given to another')
      this.#rekey(tailer, () => tailer!.leave())
      for (const at of [tailer.path, tailer.found]) if (this.#paths.get(at) === tailer) this.#vacate(at)
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
      if (!former.waitsFor(tailer)) tailer.after = former
      // It may have more, under a name that nobody knows yet.
      if (!former.isOpen) {
        tailer.held = true
        this.#held.add(tailer)
      }
    }
    if (tailer || !this.#tailers.has(former.key)) this.#former.delete(path)
  }

  /** Takes a file up that is not read yet. */
  #adopt(path: string, kind: NameKind, away?: Entry): Tailer | undefined {
    const { context, decode, fromEnd, tailing, descriptors, troubles, saved } = this.#options
    descriptors.trim(1)
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    let taken = false
    try {
      const stat = fstatSync(fd, { bigint: true })
      const known = this.#tailers.get(keyOf(stat))
      if (known || !stat.isFile()) return known
      // A folder has changed since its birth: it tells at once whether its file system keeps times of birth.
      if (!this.#births.kept(stat)) this.#births.learn(statSync(dirname(path), { bigint: true }))
      const entry = this.#resumable(fd, stat, path, saved.take(stat.dev, stat.ino, away?.path ?? path))
      if (away && !entry) return undefined
      const atEnd = fromEnd && this.#sweep === 1
      const start = entry ? positionOf(entry) : startOf(fd, stat, path, atEnd, saved, this.#births)
      // A file that was renamed keeps the name that its lines were written under.
      const tailer = new Tailer(path, stat, context.origin(decode, entry?.file ?? entry?.path ?? path), start, tailing)
      if (entry && entry.path !== path) this.#former.set(entry.path, tailer)
      tailer.open(fd)
      taken = true
      this.#tailers.set(tailer.key, tailer)
      descriptors.used(tailer)
      if (kind === 'link' || kind === 'unknown') this.#setTarget(tailer, path)
      troubles.over(path)
      if (!entry) this.unsaved++
      context.checkpoints.changed()
      return tailer
    } finally {
      if (!taken) closeSync(fd)
    }
  }

  /** Takes up what is left of a file that is gone, in a copy of it. */
  #adoptCopy(entry: Entry, copy: Copy): Tailer {
    const { context, decode, tailing, saved } = this.#options
    saved.remove(entry)
    const name = entry.file ?? entry.path
    const stat = { dev: BigInt(entry.dev), ino: BigInt(entry.ino), birthtimeNs: BigInt(entry.birth) }
    const tailer = new Tailer(entry.path, stat, context.origin(decode, name), positionOf(entry), tailing)
    tailer.readOn(copy)
    this.#tailers.set(tailer.key, tailer)
    this.#precede(name, tailer)
    return tailer
  }

  /** Its rest comes before what is found under the name: after that of those who had the name before it. */
  #precede(name: string, tailer: Tailer): void {
    const other = this.#former.get(name)
    if (other && other.birth > tailer.birth) {
      if (!tailer.waitsFor(other)) other.after ??= tailer
      return
    }
    if (other && other !== tailer && !other.waitsFor(tailer)) tailer.after ??= other
    this.#former.set(name, tailer)
  }

  #rekey(tailer: Tailer, change: () => void): void {
    this.#tailers.delete(tailer.key)
    change()
    this.#tailers.set(tailer.key, tailer)
  }

  #setTarget(tailer: Tailer, path: string): void {
    const target = realpathSync(path)
    if (target === path) return
    tailer.target = target
    this.#targets.set(target, tailer)
  }

  /** The entry, if the file is still the one that it is about. */
  #resumable(fd: number, stat: BigIntStats, path: string, entry: Entry | undefined): Entry | undefined {
    const verdict = entry && judgeEntry(fd, stat, entry, this.#births)
    if (verdict === 'same') return entry
    // What it held may be in a copy.
    if (entry) this.#options.saved.put({ ...entry, gone: true })
    if (verdict === 'truncated') this.#options.tailing.onTruncated(path)
    else if (verdict) this.#options.context.log.info({ file: path }, 'file is gone and its inode was given to another')
    return undefined
  }

  #forget(tailer: Tailer): void {
    const { descriptors, context, onForget } = this.#options
    onForget(tailer)
    this.#held.delete(tailer)
    descriptors.close(tailer)
    this.#tailers.delete(tailer.key)
    if (this.#targets.get(tailer.target) === tailer) this.#targets.delete(tailer.target)
    for (const path of [tailer.path, tailer.found]) if (this.#paths.get(path) === tailer) this.#paths.delete(path)
    context.checkpoints.changed()
  }
}

function kindOf(stat: BigIntStats): string {
  if (stat.isDirectory()) return 'folder'
  if (stat.isFIFO()) return 'FIFO'
  return stat.isSocket() ? 'socket' : 'device'
}
