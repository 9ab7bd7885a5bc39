import t from 'tap'
import { GridEventWindows, GridWindows, TOO_LATE } from '../../../src/check/simulate/grid-windows.js'
import { SlidingGrid } from '../../../src/check/simulate/sliding-grid.js'
import { createEventWindows } from '../../../src/throttle/event-several.js'
import { type EventWindows, LATE, Progress, type TakenInTime } from '../../../src/throttle/event-windows.js'
import { type Limit, PER_COST, type WindowMode } from '../../../src/throttle/limit.js'
import { DISCARD } from '../../../src/throttle/limiter.js'
import { Room } from '../../../src/throttle/row-room.js'
import { createWindows } from '../../../src/throttle/several-windows.js'
import { WallTime } from '../../../src/throttle/wall-time.js'
import type { Windows } from '../../../src/throttle/windows.js'
import { Seeded } from '../../support/seeded.js'

const MODES: readonly WindowMode[] = ['fixed', 'aligned', 'sliding', 'gcra']
const BUCKETS = 3
const LATENESS_MS = 300
const newRoom = () => new Room()

interface Event {
  readonly bucket: number
  readonly time: number
  readonly cost: number
}

/** Bursts, of which a part goes back in time. */
function events(random: Seeded, goBack: boolean): Event[] {
  let time = 1_760_000_000_000
  return Array.from({ length: 300 }, () => {
    if (random.chance(0.4)) time += random.below(random.chance(0.1) ? 3000 : 120)
    const back = goBack && random.chance(0.2) ? random.below(500) : 0
    return { bucket: random.below(BUCKETS), time: time - back, cost: random.below(4) }
  })
}

function limitsOf(random: Seeded, mode: WindowMode, unit: Limit['unit']): Limit[] {
  const limits = new Set(Array.from({ length: 6 }, () => 1 + random.below(12)))
  return [...limits].sort((a, b) => a - b).map(limit => ({ mode, limit, windowMs: 1000, unit }))
}

/** What each trial does with each event: a digit each, 1 if it discards it. */
function digits(outcomes: readonly ArrayLike<number>[]): string[] {
  return outcomes.map(outcome => Array.from(outcome).join(''))
}

t.test('the trials of a grid discard the same as throttles of their own, in order or not', async t => {
  for (const [n, mode] of [...MODES, ...MODES, ...MODES].entries()) {
    for (let seed = 0; seed < 40; seed++) {
      const random = new Seeded(seed)
      const unit = n < MODES.length ? 'events' : n < 2 * MODES.length ? 'cost' : 'bytes'
      const limits = limitsOf(random, mode, unit)
      const all = events(random, seed % 2 === 1)
      const take = (windows: Windows, { bucket, time, cost }: Event): boolean => {
        if (unit === 'events') return windows.take(bucket, time)
        const [price, size] = unit === 'cost' ? [cost * PER_COST, 1] : [1, cost]
        if (!windows.fits(bucket, time, price, size)) return false
        windows.charge(bucket, time, price, size)
        return true
      }
      const alone = limits.map(limit => createWindows([limit], new WallTime()))
      for (const windows of alone) windows.reserve(BUCKETS)
      const expected = digits(all.map(event => alone.map(windows => (take(windows, event) ? 0 : 1))))

      const outcome = new Uint8Array(limits.length)
      const trials = limits.map(limit => [limit])
      const most = limits.map(({ limit }) => limit)
      const isSimple = mode === 'sliding' && unit === 'events'
      const grids = [new GridWindows(trials, outcome), ...(isSimple ? [new SlidingGrid(most, 1000, outcome)] : [])]
      for (const grid of grids) {
        grid.reserve(BUCKETS)
        const decided = all.map(event => {
          take(grid, event)
          return outcome.slice()
        })
        t.strictSame(digits(decided), expected, `${grid.constructor.name}, ${mode} of ${unit}, seed ${seed}`)
      }
    }
  }
})

t.test('the trials of a grid discard the same in event time, and count their own late events', async t => {
  for (const [n, mode] of [...MODES, ...MODES].entries()) {
    for (let seed = 0; seed < 40; seed++) {
      const random = new Seeded(seed)
      const limits = limitsOf(random, mode, 'events')
      const all = events(random, true)
      const onLate = n < MODES.length ? 'pass' : 'discard'
      /** Takes an event when its origin has reached its time. */
      const decide = <T>(progress: Progress, windows: readonly EventWindows[], outcome: () => T): T[] => {
        for (const each of windows) each.reserve(BUCKETS)
        progress.enter(t, 0, 0)
        return all.map(({ bucket, time }) => {
          progress.see(time)
          taken = windows.map(each => each.take(bucket, time))
          return outcome()
        })
      }
      let taken: TakenInTime[] = []
      const late = new Float64Array(limits.length)
      const progress = new Progress(LATENESS_MS)
      const alone = limits.map(limit => createEventWindows([limit], onLate === 'pass', { progress, room: newRoom() }))
      const expected = decide(progress, alone, () => {
        for (const [k, decision] of taken.entries()) if (decision === LATE) late[k]!++
        return taken.map(decision =>
          decision !== LATE ? Number(decision === DISCARD) : onLate === 'pass' ? 0 : TOO_LATE,
        )
      })

      const rooms = limits.map(newRoom)
      const trials = limits.map(limit => [limit])
      const grid = {
        ...({ trials, onLate, rooms } as const),
        outcome: new Uint8Array(limits.length),
        late: new Float64Array(limits.length),
      }
      const again = new Progress(LATENESS_MS)
      const decided = decide(again, [new GridEventWindows(grid, again)], () => grid.outcome.slice())
      t.strictSame(digits(decided), digits(expected), `${mode}, ${onLate}, seed ${seed}`)
      t.strictSame(grid.late, late)
    }
  }
})
