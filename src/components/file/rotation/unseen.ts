import { dirname } from 'node:path'
import type { TimeSlices } from '../../../lib/time-slices.js'
import { PathMap } from '../by-folder.js'
import { formatOfName } from '../compression.js'
import { CLOCK_MS } from '../identity.js'
import type { Displaced } from '../saved.js'
import type { SearchOptions } from './search-options.js'

/**
 * How long a search may delay files. Without this limit, constant rotation, or a program that compresses a large file,
 * could delay them forever.
 */
const LONGEST_DELAY_MS = 10_000

interface UnseenOptions extends SearchOptions {
  /** Whether a folder cannot be listed. Nothing is found there, so nobody waits. */
  isUnlisted(folder: string): boolean
}

/** Names that now refer to another file than before. Between two sweeps, other files may also have had these names. */
export class Unseen {
  readonly #options: UnseenOptions
  /** Maps each displaced name to the earliest time at which it may have been displaced, wall clock in milliseconds. */
  readonly #displaced = new PathMap<number>()
  /** Maps each name to the time at which the search first blocked files with this name. */
  readonly #waitingSince = new Map<string, number>()

  constructor(options: UnseenOptions) {
    this.#options = options
    const { displaced, names, lookedAt } = options.saved
    for (const { path, since } of displaced) this.displaced(path, since)
    // Even if no file had these names when the source stopped, files may have come and gone under the names since
    // then.
    if (lookedAt !== undefined) for (const name of names) if (!formatOfName(name)) this.displaced(name, lookedAt)
  }

  get all(): Displaced[] {
    return Array.from(this.#displaced, ([path, since]) => ({ path, since }))
  }

  get folders(): Iterable<string> {
    return this.#displaced.folders
  }

  in(folder: string): readonly Displaced[] {
    return this.#displaced.in(folder).map(path => ({ path, since: this.since(path) }))
  }

  since(name: string): number {
    return this.#displaced.get(name)!
  }

  /** Whether files with this name must wait for the search for the name. They do not wait forever. */
  delays(name: string): boolean {
    if (!this.#displaced.has(name) || this.#options.isUnlisted(dirname(name))) return false
    const now = this.#options.context.clock.now()
    return now - (this.#waitingSince.get(name) ?? now) <= LONGEST_DELAY_MS
  }

  /** Records that the name now refers to another file than at the time `since`, wall clock in milliseconds. */
  displaced(name: string, since: number): void {
    this.repeat({ path: name, since: since - CLOCK_MS })
  }

  /** Repeats an earlier search. */
  repeat({ path, since }: Displaced): void {
    this.#displaced.set(path, Math.min(since, this.#displaced.get(path) ?? since))
  }

  /** Ends the search for a name. */
  end(name: string): void {
    this.#displaced.delete(name)
    this.#waitingSince.delete(name)
  }

  /** Called after each search. The search for a name begins when its file system answers again. */
  async wait(slices: TimeSlices): Promise<void> {
    const { context, remote } = this.#options
    await slices.each(this.#displaced.keys(), name => {
      if (!this.#waitingSince.has(name) || remote.isSilent(name)) this.#waitingSince.set(name, context.clock.now())
    })
  }
}
