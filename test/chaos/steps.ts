import type { Seeded } from '../support/seeded.js'
import { type Fault, type Patience, type Setup, SLOTS, type Step } from './scenario.js'

/** One kind of step: how often it comes, and how it is made up. */
type Kind = readonly [weight: number, make: (random: Seeded, setup: Setup) => Step]

const SLOT_COUNT = SLOTS.length
const slot = (random: Seeded) => random.below(SLOT_COUNT)
/** Slots whose name is a file's own: the last one is a symbolic link. */
const fileSlot = (random: Seeded) => random.below(SLOT_COUNT - 1)
const wait = (random: Seeded): Patience => random.pick(['none', 'open', 'open', 'taken'])
const names = (random: Seeded) => random.pick(['numbers', 'numbers', 'dates'] as const)
const few = (random: Seeded) => random.pick([0, 1, 1, 3, 20])

const KINDS: readonly Kind[] = [
  [26, append],
  [
    10,
    random => ({
      do: 'rotate',
      slot: fileSlot(random),
      names: names(random),
      create: random.chance(0.7),
      keep: random.chance(0.3),
      depth: random.pick([1, 2, 5]),
      wait: wait(random),
    }),
  ],
  [
    5,
    random => ({
      do: 'copytruncate',
      slot: slot(random),
      names: names(random),
      depth: random.pick([1, 2, 5]),
      wait: random.pick(['open', 'taken', 'taken']),
      lines: few(random),
    }),
  ],
  [4, random => ({ do: 'gzip', slot: fileSlot(random), wait: wait(random) })],
  [2, random => ({ do: 'archive', slot: fileSlot(random), wait: wait(random) })],
  [
    5,
    random => ({
      do: 'delete',
      slot: fileSlot(random),
      recreate: random.chance(0.7),
      keep: random.chance(0.2),
      lines: few(random),
      wait: wait(random),
    }),
  ],
  [4, random => ({ do: 'replace', slot: fileSlot(random), lines: few(random), wait: wait(random) })],
  [3, random => ({ do: 'swap', slots: random.chance(0.5) ? [0, 1] : [0, 1, 2] })],
  [2, random => ({ do: 'bring_back', slot: fileSlot(random) })],
  [2, random => ({ do: 'hard_link', slot: fileSlot(random), inside: random.chance(0.6) })],
  [1, random => ({ do: 'unlink', slot: fileSlot(random) })],
  [
    3,
    random => ({
      do: 'switch',
      lines: few(random),
      inside: random.chance(0.4),
      drop: random.chance(0.3),
      wait: wait(random),
    }),
  ],
  [2, random => ({ do: 'empty', slot: fileSlot(random) })],
  [4, random => ({ do: 'late', lines: random.pick([1, 1, 5]) })],
  [12, receiver],
  [11, () => ({ do: 'heal' })],
  [3, () => ({ do: 'kill' })],
  [2, random => ({ do: 'term', wait: random.chance(0.8) })],
  [14, random => ({ do: 'start', wait: random.chance(0.6) })],
  [4, random => ({ do: 'restart', signal: random.pick(['KILL', 'KILL', 'TERM']) })],
  [2, () => ({ do: 'freeze' })],
  [9, () => ({ do: 'thaw' })],
  [1.5, () => ({ do: 'unwritable' })],
  [1.5, (random, { logs }) => ({ do: 'full', where: logs === 'tmpfs' ? random.pick(['state', 'logs']) : 'state' })],
  [6, () => ({ do: 'writable' })],
  [
    2,
    (random, { buffer }) => ({
      do: 'damage',
      which: random.pick(
        buffer === 'disk' ? ['newest', 'both', 'ledger', 'segment'] : ['newest', 'newest', 'before', 'both'],
      ),
      how: random.pick(['empty', 'cut', 'flip']),
      at: random.next(),
    }),
  ],
  [2, () => ({ do: 'saved' })],
  [5, () => ({ do: 'taken' })],
  [10, random => ({ do: 'pause', ms: random.pick([1, 5, 20, 60, 250]) })],
]
const TOTAL = KINDS.reduce((sum, [weight]) => sum + weight, 0)

/** A step at random, more of those that happen often. */
export function nextStep(random: Seeded, setup: Setup): Step {
  let at = random.next() * TOTAL
  for (const [weight, make] of KINDS) {
    at -= weight
    if (at < 0) return make(random, setup)
  }
  return { do: 'heal' }
}

function append(random: Seeded): Step {
  const bytes = random.pick([10, 60, 60, 200, 3000, 100_000])
  return {
    do: 'append',
    slot: slot(random),
    lines: bytes > 1000 ? random.pick([1, 2, 8]) : random.pick([1, 1, 2, 10, 100, 1000]),
    bytes,
    tear: random.chance(0.35) ? random.next() : 0,
    writes: random.pick([1, 1, 1, 3]),
  }
}

const FAULTS: readonly ((random: Seeded) => Fault)[] = [
  () => ({ fault: 'status', status: 503 }),
  random => ({ fault: 'status', status: random.pick([500, 502, 408]), early: random.chance(0.5) }),
  random => ({ fault: 'status', status: 429, ...(random.chance(0.5) ? { retryAfter: random.pick([0, 1]) } : {}) }),
  random => ({ fault: 'key', status: random.pick([401, 403]) }),
  random => ({ fault: 'reset', when: 'before', stored: random.chance(0) }),
  random => ({ fault: 'reset', when: 'after', stored: random.chance(0.5) }),
  () => ({ fault: 'reset', when: 'answer', stored: true }),
  random => ({ fault: 'hang', when: 'before', stored: random.chance(0) }),
  random => ({ fault: 'hang', when: 'after', stored: random.chance(0.5) }),
  random => ({ fault: 'slow', ms: random.pick([20, 100, 400]) }),
  random => ({ fault: 'too_large', events: random.pick([1, 3, 20]) }),
  random => ({ fault: 'refuse', status: random.pick([400, 404, 422]) }),
  random => ({ fault: 'half', status: random.pick([400, 422]) }),
  () => ({ fault: 'tls' }),
  () => ({ fault: 'gone' }),
  () => ({ fault: 'gone' }),
]

function receiver(random: Seeded): Step {
  const fault = random.pick(FAULTS)(random)
  // What is final is for some requests only, so that not everything ends as dead letters.
  const some = fault.fault === 'refuse' || fault.fault === 'half' || random.chance(0.5)
  return { do: 'receiver', fault, ...(some ? { times: random.pick([1, 1, 2, 5]) } : {}) }
}
