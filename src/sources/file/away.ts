import { type BigIntStats, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { SourceContext } from '../../core/component.js'
import { Copies, type Sought } from './copies.js'
import type { Copy } from './copy.js'
import { type BirthTimes, FINGERPRINT_BYTES, keyOf, leadsTo } from './identity.js'
import { type Entry, entryKey, type Saved } from './saved.js'
import type { Slices } from './slices.js'
import type { Tailer } from './tailer.js'
import type { Troubles } from './troubles.js'

export interface AwayOptions {
  readonly context: SourceContext
  /** How long a file that is away is watched for more. */
  readonly rotateWaitMs: number
  readonly saved: Saved
  readonly troubles: Troubles
  readonly births: BirthTimes
  /** The file may have more to read. */
  onReady(tailer: Tailer): void
  /** Nothing more will come: what is left of its last line goes out. */
  onEnd(tailer: Tailer): void
  /** Takes up the file at `path`, which is the one that the entry is about; undefined when it is not. */
  adopt(path: string, entry: Entry): Tailer | undefined
  /** Opens the file if it is not; false when it cannot be read now. */
  open(tailer: Tailer): boolean
  /** Takes up what is left of the entry's file, from a copy of it. */
  adoptCopy(entry: Entry, copy: Copy): Tailer
  /** What is left of the file, which is closed and gone, is read from a copy. */
  readOn(tailer: Tailer, copy: Copy): void
  forget(tailer: Tailer): void
}

/**
 * Files that no name leads to any more which is to be read: renamed, deleted, compressed, or excluded by now. Invariants: one is
 * read on while it grows, and let go when it has been quiet for a while, is read to its end, and all of it is settled.
 * Outside of the patterns only the rest of a file is read that was inside, never another file with its inode.
 */
export class Away {
  readonly #options: AwayOptions
  readonly #copies: Copies

  constructor(options: AwayOptions) {
    this.#options = options
    this.#copies = new Copies(options.troubles, options.births)
  }

  /** Finds files that were renamed while nothing ran, or that grew after they were let go, in the folder they were in. */
  async find(tailers: Iterable<Tailer>, slices: Slices): Promise<void> {
    const { saved, births, troubles } = this.#options
    const there = new Set<Entry>()
    for (const [folder, entries] of saved.byFolder()) {
      const wanted = new Map(entries.filter(({ gone }) => !gone).map(entry => [entryKey(entry), entry]))
      const above = statSync(folder, { bigint: true, throwIfNoEntry: false })
      if (above) births.learn(above)
      for await (const [path, stat] of search(folder, wanted, slices)) {
        const entry = wanted.get(keyOf(stat))!
        if (Number(stat.size) < entry.offset || births.differ(stat, BigInt(entry.birth))) continue
        there.add(entry)
        if (Number(stat.size) === entry.offset) continue
        try {
          const tailer = this.#options.adopt(path, entry)
          if (tailer) this.#goOn(tailer, path)
        } catch (error) {
          troubles.failed(path, 'open', error)
        }
      }
    }
    await this.#findCopies(there, [...tailers], slices)
  }

  /** What is nowhere, but for `there`, may have been compressed. The oldest is read first: what is later comes after it. */
  async #findCopies(there: ReadonlySet<Entry>, tailers: readonly Tailer[], slices: Slices): Promise<void> {
    const { saved, onReady, adoptCopy } = this.#options
    const folders = saved.byFolder()
    this.#copies.keep(folders)
    this.#copies.begin()
    for (const [folder, entries] of folders) {
      const missing = entries.filter(entry => !there.has(entry)).sort((a, b) => b.head.bytes - a.head.bytes)
      if (missing.some(({ head }) => head.bytes < FINGERPRINT_BYTES)) {
        for (const tailer of tailers) {
          if (slices.due) await slices.pause()
          if (dirname(tailer.path) === folder && !tailer.copy) await this.#copies.speak(folder, tailer.sought, slices)
        }
      }
      const found: [Entry, Copy][] = []
      for (const entry of missing) {
        if (slices.due) await slices.pause()
        const copy = await this.#copies.find(folder, soughtBy(entry, saved.savedAt), slices)
        if (copy) found.push([entry, copy])
      }
      found.sort(([a], [b]) => (BigInt(a.birth) < BigInt(b.birth) ? -1 : 1))
      for (const [entry, copy] of found) {
        const tailer = adoptCopy(entry, copy)
        this.#tell(tailer, copy)
        onReady(tailer)
      }
    }
  }

  #tell(tailer: Tailer, copy: Copy): void {
    const { log } = this.#options.context
    log.info({ file: tailer.origin.path, copy: copy.path }, 'file is gone, looking for its rest in a compressed copy')
  }

  /** Those of the open files that the next start could not find: they have no name any more, or one in another folder. */
  async unfindable(tailers: Iterable<Tailer>, slices: Slices): Promise<Tailer[]> {
    const sought = new Map<string, Tailer>()
    for (const tailer of tailers) {
      if (slices.due) await slices.pause()
      if (tailer.isOpen && !tailer.copy && !leadsTo(tailer.path, tailer.key)) sought.set(tailer.key, tailer)
    }
    for (const folder of new Set([...sought.values()].map(({ path }) => dirname(path)))) {
      for await (const [path, stat] of search(folder, sought, slices)) {
        if (dirname(sought.get(keyOf(stat))!.path) === dirname(path)) sought.delete(keyOf(stat))
      }
    }
    return [...sought.values()]
  }

  /** Looks after those that the sweep did not come across. */
  async visit(tailers: readonly Tailer[], slices: Slices): Promise<void> {
    const now = this.#options.context.clock.now()
    const closed = new Map<string, Tailer>()
    for (const tailer of tailers) {
      if (slices.due) await slices.pause()
      tailer.awaySince ??= now
      if (tailer.isOpen) this.#visit(tailer, now)
      else closed.set(tailer.key, tailer)
    }
    if (closed.size > 0) await this.#visitClosed(closed, now, slices)
  }

  #visit(tailer: Tailer, now: number): void {
    const { onReady, onEnd, troubles, rotateWaitMs } = this.#options
    if (tailer.queued && !tailer.failed) {
      tailer.awaySince = now
      return
    }
    let left = 0
    try {
      left = tailer.left()
    } catch (error) {
      tailer.failed = 'read'
      troubles.failed(tailer.path, 'read', error)
    }
    if (left !== 0 && !tailer.failed) {
      tailer.awaySince = now
      onReady(tailer)
    } else if (now - quietSince(tailer) < rotateWaitMs) {
      if (tailer.failed) onReady(tailer)
    } else if (tailer.pending > 0 && !tailer.failed) onEnd(tailer)
    else this.#retireIfOver(tailer, now)
  }

  /** What is closed to save descriptors has to be found under its new name first. */
  async #visitClosed(closed: Map<string, Tailer>, now: number, slices: Slices): Promise<void> {
    const { births, open, forget, readOn, onReady } = this.#options
    const folders = new Set([...closed.values()].flatMap(({ path, target }) => [dirname(path), dirname(target)]))
    for (const folder of folders) {
      for await (const [path, stat] of search(folder, closed, slices)) {
        const tailer = closed.get(keyOf(stat))!
        if (births.differ(stat, tailer.birth)) continue
        tailer.path = path
        tailer.found = path
        if (!tailer.look(Number(stat.size), stat.mtimeNs) || !open(tailer)) continue
        closed.delete(tailer.key)
        if (births.kept(stat) || tailer.verify()) this.#goOn(tailer, path)
        else forget(tailer)
      }
    }
    this.#copies.begin()
    const known = [...closed.values()].sort((a, b) => b.sought.head.bytes - a.sought.head.bytes)
    for (const tailer of known) {
      if (slices.due) await slices.pause()
      const copy = await this.#copies.find(dirname(tailer.path), tailer.sought, slices)
      if (copy) {
        readOn(tailer, copy)
        this.#tell(tailer, copy)
        tailer.awaySince = now
        onReady(tailer)
      } else this.#retireIfOver(tailer, now)
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

  /** Lets go of a file; its position stays known for when it comes back. */
  #retireIfOver(tailer: Tailer, now: number): void {
    const { context, saved, rotateWaitMs, forget } = this.#options
    if (now - quietSince(tailer) < rotateWaitMs || tailer.unsettled || tailer.reading) return
    if (tailer.unread > 0) {
      context.metrics.failed('vanished')
      const fields = { code: 'SLUICE_FILE_VANISHED', file: tailer.path, unread_bytes: tailer.unread }
      context.log.error(fields, 'file vanished before it was read to its end')
    }
    const entry = { ...tailer.entry(), away: context.clock.wall() }
    if (!tailer.unlinked) saved.put(entry)
    // So that its copy, when it is looked at by the next run, is not taken for that of another.
    else if (this.#copies.areIn(dirname(tailer.path))) saved.put({ ...entry, gone: true })
    forget(tailer)
  }
}

/** Since when it has been away and has not grown. */
function quietSince({ awaySince, growth }: Tailer): number {
  return Math.max(awaySince!, growth.at)
}

function soughtBy(entry: Entry, since: number | undefined): Sought {
  const { birth, offset, head, tail, file, path, away } = entry
  const name = basename(file ?? path)
  return {
    key: entryKey({ ...entry, gone: true }),
    name,
    birth: BigInt(birth),
    offset,
    head,
    tail,
    read: away !== undefined,
    since,
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
    } catch {
      // A loop of links, for one: not what is looked for.
    }
    if (stat?.isFile() && wanted.has(keyOf(stat))) yield [path, stat]
  }
}
