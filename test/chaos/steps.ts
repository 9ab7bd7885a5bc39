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
  [10, () => ({ do: 'heal' })],
  [4, () => ({ do: 'kill' })],
  [3, random => ({ do: 'term', wait: random.chance(0.8) })],
  [30, random => ({ do: 'start', wait: random.chance(0.6) })],
  [4, random => ({ do: 'restart', signal: random.pick(['KILL', 'KILL', 'TERM']) })],
  [3, () => ({ do: 'freeze' })],
  [40, () => ({ do: 'thaw' })],
  [2, (random, { state }) => ({ do: 'unwritable', all: state === 'tmpfs' && random.chance(0.7) })],
  [1.5, (random, { logs }) => ({ do: 'full', where: logs === 'tmpfs' ? random.pick(['state', 'logs']) : 'state' })],
  [12, () => ({ do: 'writable' })],
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

/** What was done so far, as far as it tells which steps would come to nothing. */
class Course {
  #running = true
  #frozen = false
  #ill = false
  #unwritable = false

  wouldDoNothing(step: Step): boolean {
    switch (step.do) {
      case 'start':
        return this.#running
      case 'kill':
      case 'term':
        return !this.#running
      case 'freeze':
        return !this.#running || this.#frozen
      case 'thaw':
        return !this.#frozen
      case 'heal':
        return !this.#ill
      case 'writable':
        return !this.#unwritable
      case 'taken':
      case 'saved':
        return !this.#running || this.#frozen || this.#ill || this.#unwritable
      default:
        return false
    }
  }

  note(step: Step): void {
    switch (step.do) {
      case 'start':
      case 'restart':
        this.#running = true
        this.#frozen = false
        break
      case 'kill':
      case 'term':
      case 'damage':
        this.#running = this.#frozen = false
        break
      case 'freeze':
      case 'thaw':
        this.#frozen = step.do === 'freeze'
        break
      case 'receiver':
        this.#ill ||= step.times === undefined
        break
      case 'heal':
        this.#ill = false
        break
      case 'unwritable':
      case 'full':
      case 'writable':
        this.#unwritable = step.do !== 'writable'
    }
  }
}

/** Steps at random, more of those that happen often. */
export function makeSteps(random: Seeded, setup: Setup, count: number): Step[] {
  const course = new Course()
  const steps: Step[] = []
  while (steps.length < count) {
    const step = makeStep(random, setup)
    if (course.wouldDoNothing(step)) continue
    course.note(step)
    steps.push(step)
  }
  return steps
}

function makeStep(random: Seeded, setup: Setup): Step {
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

const FAULTS: readonly ((random: Seeded, setup: Setup) => Fault)[] = [
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
  some,
  some,
  () => ({ fault: 'tls' }),
  () => ({ fault: 'gone' }),
  random => ({ fault: 'gone', long: random.chance(0.5) }),
]

/** Lines as they are can be pieces of one: there only halves can be refused. */
function some(random: Seeded, { format }: Setup): Fault {
  if (format === 'raw') return { fault: 'half', status: random.pick([400, 422]) }
  return {
    fault: 'some',
    status: random.pick([207, 207, 400, 422]),
    every: random.pick([1, 2, 5]),
    again: random.pick([0, 429, 503]),
  }
}

function receiver(random: Seeded, setup: Setup): Step {
  const fault = random.pick(FAULTS)(random, setup)
  // What is final is for some requests only, so that not everything ends as dead letters.
  const final = ['refuse', 'half', 'some'].includes(fault.fault)
  return { do: 'receiver', fault, ...(final || random.chance(0.5) ? { times: random.pick([1, 1, 2, 5]) } : {}) }
}
