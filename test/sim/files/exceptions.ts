import type { World } from '../world.js'
import type { Line } from './ledger.js'
import type { Plan } from './plan.js'

/** A broken promise of the source that is known. */
interface Exception {
  readonly name: string
  /** A seed that shows it. */
  readonly seed: number
  readonly promises: readonly Broken[]
  applies(plan: Plan, line: Partial<Line>): boolean
}

type Broken = 'missing' | 'twice' | 'order' | 'torn' | 'unreported'

/** Whether files may change in the middle of a look. */
const changesInLooks = ({ callMs, interrupts, latencyMs }: Plan) => callMs > 0 || interrupts > 0 || latencyMs > 500

const EXCEPTIONS: readonly Exception[] = [
  {
    // docs/known-losses.md, files that Sluice never saw: nothing shows that the file had other content.
    name: 'lines that were written, copied and truncated between two looks',
    seed: 571,
    promises: ['missing'],
    applies: ({ rotation }, { wasSeen }) => rotation.how === 'copy' && wasSeen === false,
  },
  {
    // It rests until it is complete, and is inflated. Others may not wait for it, and it does not look for others' rest.
    name: 'a compressed file that was not seen before comes out of order',
    seed: 111,
    promises: ['order'],
    applies: (_plan, { wasCompressed }) => wasCompressed === true,
  },
  {
    // docs/known-losses.md, no birth times.
    name: 'without birth times, lines come twice, and in another order',
    seed: 869,
    promises: ['twice', 'order'],
    applies: ({ habits }) => habits.births !== 'stored',
  },
  {
    // In the first two kilobytes, the ends of lines are known, and no other places.
    name: 'a copy of less than 2 KiB that ends within a line is read again',
    seed: 1975,
    promises: ['twice'],
    applies: ({ rotation, style }) => rotation.how === 'copy' && rotation.leastBytes < 2048 && style.inParts > 0,
  },
  {
    // A closed file is known by its inode only, and by its content if any was read. 92600319: closed by an error.
    name: 'without birth times, a file that was closed for want of descriptors, or could not be read, is confused with another one',
    seed: 1408,
    promises: ['twice', 'missing', 'unreported', 'torn'],
    applies: ({ maxOpenFiles, habits }, { hadErrors }) =>
      habits.births !== 'stored' && (maxOpenFiles < 3 || hadErrors === true),
  },
  {
    name: 'a file that was closed for want of descriptors, and truncated before it was read, is not counted as lost',
    seed: 10116,
    promises: ['unreported'],
    applies: ({ rotation, maxOpenFiles }) => rotation.how === 'copy' && maxOpenFiles < 3,
  },
  {
    // docs/known-losses.md, equal files. It may be a copy, and waits until the other files of its name were compared.
    name: 'without birth times, a file that has the name of a copy, and is deleted before it is read, is not counted as lost',
    seed: 17007369,
    promises: ['unreported'],
    applies: ({ rotation, habits, include }) =>
      rotation.deletesUnread && habits.births !== 'stored' && include === '*.log*',
  },
  {
    // docs/known-losses.md, compressed rotated files: it may be the copy of a file of which no bytes are known.
    name: 'a file that could never be read, and its deleted copy, do not count as lost while there is another compressed file',
    seed: 83032362,
    promises: ['unreported'],
    applies: ({ rotation }, { hadErrors }) => rotation.deletesUnread && rotation.gzip > 0 && hadErrors === true,
  },
  {
    // docs/known-losses.md, files that Sluice never saw: a search lists folders between two scans, too.
    name: 'a file that only a search saw, and that was deleted before the next scan, is not counted as lost',
    seed: 19005014,
    promises: ['unreported'],
    applies: plan => plan.rotation.deletesUnread && changesInLooks(plan),
  },
  {
    name: 'a file that was not seen before comes after its successor, which is rotated in the middle of a look',
    seed: 2238,
    promises: ['order'],
    applies: (plan, { wasSeen }) => wasSeen === false && changesInLooks(plan),
  },
  {
    // While files are rotated, a search delays them for ten seconds. Slow calls make it last longer.
    name: 'a file that was first seen in a rotation comes out of order if the calls of the file system are slow',
    seed: 63065701,
    promises: ['order'],
    applies: ({ callMs }) => callMs >= 40,
  },
  {
    // Each of several copies is looked for by its content, and the first one that is found is read.
    name: 'of several copies whose original was truncated unread, a newer one comes first',
    seed: 435,
    promises: ['order'],
    applies: ({ rotation }, { wasUnread }) => rotation.how === 'copy' && wasUnread === true,
  },
  {
    // Files that cannot be read do not delay others, and do not wait for files that were rotated meanwhile.
    name: 'lines of a file that could not be examined, opened or read come out of order, or files before it do',
    seed: 96,
    promises: ['order'],
    applies: (_plan, { wasRefused }) => wasRefused === true,
  },
  {
    // docs/known-losses.md, events that arrive twice: only content shows that a compressed file is a copy of a file.
    name: 'lines of a file that could not be opened or read come again from its copy',
    seed: 70000462,
    promises: ['twice'],
    applies: (_plan, { hadErrors }) => hadErrors === true,
  },
]

/** The violations of a world that are known, and not counted as failures. */
export class Exceptions {
  readonly known = new Map<string, number>()
  readonly #world: World
  readonly #plan: Plan

  constructor(world: World, plan: Plan) {
    this.#world = world
    this.#plan = plan
  }

  /** A promise about this line is broken. */
  violate(promise: Broken, text: string, line: Partial<Line> = {}): void {
    const known = EXCEPTIONS.find(one => one.promises.includes(promise) && one.applies(this.#plan, line))
    if (!known) {
      this.#world.violate(text)
      return
    }
    this.#world.say(() => `known: ${text} (${known.name})`)
    this.known.set(known.name, (this.known.get(known.name) ?? 0) + 1)
  }
}
