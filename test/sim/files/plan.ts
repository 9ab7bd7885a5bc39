import type { Seeded } from '../../support/seeded.js'
import type { Habits } from '../disk-names.js'
import type { Style } from './log.js'
import type { Rotation } from './rotations.js'
import type { Surroundings } from './tailing.js'

/** What a world of files is made of, by its seed. */

export const KINDS = [
  'rename',
  'rename, wide pattern',
  'rename and gzip',
  'copy and truncate',
  'copy and truncate, wide pattern',
  'kubelet',
  'docker',
  'several at once',
] as const
export type WorldKind = (typeof KINDS)[number]

/** A copy with fewer bytes cannot be told from other files. Without birth times, less content proves nothing. */
const LEAST_COPY = { stored: 64, zero: 1024 }

export const kindOf = (seed: number): WorldKind => KINDS[seed % KINDS.length]!

/** How a run of the source ends. */
export type Ending = 'stop' | 'kill' | 'kill in a call'

export interface Life {
  readonly ms: number
  readonly ending: Ending
  /** Calls of the disk before it is killed in one. */
  readonly calls: number
  /** How long the source is away afterwards. */
  readonly awayMs: number
}

export interface Plan {
  readonly kind: WorldKind
  readonly logs: readonly string[]
  readonly include: string
  readonly exclude: readonly string[]
  readonly style: Style
  readonly rotation: Rotation
  readonly habits: Habits
  /** How long a call of the disk takes at most, and how likely another program takes a step in it. */
  readonly callMs: number
  readonly interrupts: number
  readonly inflatingMs: number
  readonly latencyMs: number
  readonly surroundings: Omit<Surroundings, 'options'>
  readonly maxOpenFiles: number
  readonly options: object
  readonly lives: readonly Life[]
  /** Whether it is started and stopped once more when everything was delivered. */
  readonly startsOnceMore: boolean
}

export function planOf(seed: number, random: Seeded): Plan {
  const kind = kindOf(seed)
  const how = howOf(kind, random)
  const isWide = kind.endsWith('wide pattern')
  const name = how === 'kubelet' ? '0.log' : how === 'docker' ? 'a1b2-json.log' : 'app.log'
  const hasTwo = random.chance(0.25)
  const include = isWide ? '*.log*' : '*.log'
  const lines = random.pick([15, 40, 120])
  const everyMs = random.pick([20, 200, 600])
  const leastBytes = random.pick([20, 64, 64])
  const maxOpenFiles = random.chance(0.1) ? 1 + random.below(2) : 4096
  const saveMs = random.pick([1000, 1000, 5000, 20_000])
  const isSmall = random.chance(0.2)
  const births = random.pick(['stored', 'stored', 'stored', 'stored', 'zero', 'zero', 'zero'] as const)
  const smallest = how === 'copy' ? LEAST_COPY[births] : 1
  // Without a draw: the other worlds stay what they were.
  const reopensMs = how === 'rename' && (seed >> 5) % 4 === 1 ? [5, 50, 500, 5000][(seed >> 7) % 4]! : 0
  return {
    kind,
    logs: hasTwo ? [name, `other-${name}`] : [name],
    include,
    // Half of these worlds read compressed files that are not copies.
    exclude: isWide && seed % 16 < 8 ? ['*.gz'] : [],
    style: {
      lines,
      everyMs,
      leastBytes,
      mostBytes: leastBytes + random.pick([0, 100, 1500]),
      burst: random.pick([5, 30]),
      inParts: random.pick([0, 0, 0.1, 0.4]),
      pauseMs: random.pick([5, 2000]),
    },
    rotation: {
      how,
      keep: 3 + random.below(3),
      gzip:
        kind === 'rename' || (isWide && random.chance(0.5))
          ? 0
          : kind === 'rename and gzip'
            ? 0.8
            : random.pick([0, 0.5, 1]),
      leastBytes: reopensMs > 0 ? 0 : isSmall ? smallest : how === 'copy' ? 4096 : random.pick([1, 500]),
      inARow: kind === 'several at once' ? 2 + random.below(3) : random.pick([1, 1, 2]),
      everyMs: (lines * everyMs) / random.pick([2, 4, 8]),
      reopensMs,
      deletesUnread: random.chance(0.15),
    },
    habits: {
      births,
      reusesInodes: random.chance(0.7),
      shufflesLists: random.chance(0.7),
      tickMs: random.pick([0, 4]),
      isWatched: random.chance(0.5),
    },
    callMs: random.pick([0, 0, 0.05, 0.05, 1, random.chance(0.3) ? 40 : 5]),
    interrupts: random.pick([0, 0, 0.005, 0.05]),
    inflatingMs: random.pick([0.1, 20, 1000]),
    latencyMs: random.pick([2, 2, 50, 1000]),
    surroundings: {
      ackMs: random.pick([0, 20, 1000]),
      blocks: random.pick([0, 0, 0, 0.3]),
      blockMs: random.pick([500, 6000]),
      comesBack: random.pick([0, 0, 0, 0.05]),
      saveMs,
    },
    maxOpenFiles,
    options: {
      scan_interval: random.pick(['500ms', '1s', '2s']),
      rotate_wait: random.pick(['20s', '1m']),
      max_open_files: maxOpenFiles,
    },
    lives: livesOf(random, lines * everyMs),
    startsOnceMore: random.chance(0.3),
  }
}

function howOf(kind: WorldKind, random: Seeded): Rotation['how'] {
  if (kind === 'kubelet' || kind === 'docker') return kind
  if (kind.startsWith('copy')) return 'copy'
  return kind === 'several at once' ? random.pick(['rename', 'rename', 'copy', 'kubelet', 'docker']) : 'rename'
}

function livesOf(random: Seeded, writingMs: number): Life[] {
  const lives = random.pick([0, 0, 1, 2, 3])
  return Array.from({ length: lives }, () => ({
    ms: (writingMs / (lives + 1)) * (0.3 + random.next()),
    ending: random.pick(['stop', 'kill', 'kill in a call']),
    calls: random.below(random.pick([20, 200, 1500])),
    awayMs: random.next() * random.pick([10, 1000, writingMs / 2]),
  }))
}
