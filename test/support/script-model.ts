/** What the script does, written independently of it: a server with a clock that the caller sets, in microseconds. */

type Pair = readonly [cost: number, bytes: number]

interface SetLimit {
  readonly mode: 'fixed' | 'aligned' | 'gcra' | 'quota'
  readonly unit: 0 | 1
  readonly most: number
  readonly part: number
  readonly times: readonly [number, number, number]
}

interface Question {
  readonly set: readonly SetLimit[]
  readonly back: Pair
  readonly ahead: Pair
  readonly need: Pair
  readonly ticket: number
  readonly list: readonly Pair[]
}

const MODES = ['fixed', 'aligned', 'gcra', 'quota'] as const
const GCRA_VALID = 0.1

export class ScriptModel {
  readonly #buckets = new Map<string, Count[]>()

  get size(): number {
    return this.#buckets.size
  }

  /** As a server that was restarted empty. */
  clear(): void {
    this.#buckets.clear()
  }

  /** Replies to a call. */
  execute(keys: readonly Buffer[], [sets, asked]: readonly Buffer[], now: number): (number | string)[] {
    const questions = questionsOf(setsOf(sets!), asked!, keys.length)
    return [now, ...keys.flatMap((key, i) => this.#answer(key.toString('latin1'), questions[i]!, now)), 0]
  }

  #answer(name: string, { set, back, ahead, need, ticket, list }: Question, now: number): (number | string)[] {
    const before = this.#buckets.get(name)
    const counts = set.map((limit, n) => new Count(limit, before?.[n], now))
    for (const count of counts) count.giveBack(back[count.limit.unit], ticket, now)
    const events: readonly Pair[] = list.length > 0 ? list : Array.from({ length: need[0] }, () => [1, 0] as const)
    let refusedBy: Count | undefined
    const flags = events.map(event => {
      const refusing = counts.filter(count => !count.fits(event[count.limit.unit]))
      if (refusing.length > 0) refusedBy = list.length > 0 ? refusing.at(-1) : (refusedBy ?? refusing[0])
      else for (const count of counts) count.used += event[count.limit.unit]
      return refusing.length === 0
    })
    const extra: [number, number] = refusedBy ? [0, 0] : [...ahead]
    for (const count of counts) {
      const { unit, part } = count.limit
      extra[unit] = Math.max(0, Math.min(extra[unit], Math.floor(count.left * part)))
    }
    for (const count of counts) count.used += extra[count.limit.unit]
    const taken = flags.some((passed, i) => passed && events[i]![0] + events[i]![1] > 0)
    if (taken || [...extra, ...back].some(units => units > 0)) this.#buckets.set(name, counts)
    const fullest = counts.reduce((most, count) => (count.filled > most.filled ? count : most))
    const nearest = refusedBy ?? fullest
    const wait = refusedBy ? refusedBy.roomIn(now) : Math.min(...counts.map(count => count.validFor(now)))
    const passed = list.length > 0 ? flags.map(Number).join('') : flags.filter(Boolean).length
    return [
      list.length > 0 && !refusedBy ? -1 : passed,
      ...extra,
      Math.ceil(wait),
      counts.indexOf(nearest),
      Math.ceil(nearest.used),
      Math.ceil(nearest.endsIn(now)),
    ]
  }
}

/** What is counted in one limit of a bucket. */
class Count {
  readonly limit: SetLimit
  start: number
  used = 0

  constructor(limit: SetLimit, before: Count | undefined, now: number) {
    const { mode, times } = limit
    this.limit = limit
    this.start = now
    if (mode === 'aligned') this.start = Math.floor(now / times[0]) * times[0]
    if (mode === 'quota') this.start = now < times[1] ? times[0] : times[1]
    if (!before) return
    if (mode === 'gcra') this.used = Math.max(0, before.used - Math.max(0, now - before.start) / this.#interval)
    else if (mode === 'quota' ? this.start <= before.start : now < before.start + times[0]) {
      this.used = before.used
      if (mode === 'quota' || before.start <= now) this.start = before.start
    }
  }

  get #interval(): number {
    return this.limit.times[0] / this.limit.most
  }

  get left(): number {
    return (this.limit.mode === 'gcra' ? this.limit.times[1] : this.limit.most) - this.used
  }

  get filled(): number {
    return this.used / this.limit.most
  }

  fits(units: number): boolean {
    return this.limit.mode === 'gcra' ? this.left >= -1e-6 : units <= this.left
  }

  giveBack(units: number, ticket: number, now: number): void {
    if (this.limit.mode === 'gcra') units = Math.max(0, units - Math.max(0, now - ticket) / this.#interval)
    else if (ticket < this.start || ticket > now) return
    this.used = Math.max(0, this.used - units)
  }

  endsIn(now: number): number {
    const { mode, times } = this.limit
    if (mode === 'gcra') return this.used * this.#interval
    if (mode === 'quota') return Math.max(0, (this.start < times[1] ? times[1] : times[2]) - now)
    return this.start + times[0] - now
  }

  validFor(now: number): number {
    return this.limit.mode === 'gcra' ? this.limit.times[0] * GCRA_VALID : this.endsIn(now)
  }

  roomIn(now: number): number {
    return this.limit.mode === 'gcra' ? Math.max(0, -this.left * this.#interval) : this.endsIn(now)
  }
}

function doublesOf(bytes: Buffer): number[] {
  return Array.from({ length: bytes.length / 8 }, (_, i) => bytes.readDoubleLE(i * 8))
}

function setsOf(bytes: Buffer): SetLimit[][] {
  const doubles = doublesOf(bytes)
  const sets: SetLimit[][] = []
  for (let at = 0; at < doubles.length; ) {
    const length = doubles[at++]!
    sets.push(
      Array.from({ length }, () => {
        const [mode, unit, most, part, ...times] = doubles.slice(at, at + 7)
        at += 7
        return { mode: MODES[mode!]!, unit: unit as 0 | 1, most: most!, part: part!, times: times as never }
      }),
    )
  }
  return sets
}

function questionsOf(sets: readonly SetLimit[][], bytes: Buffer, keys: number): Question[] {
  const doubles = doublesOf(bytes)
  let at = 0
  const pair = (): Pair => [doubles[at++]!, doubles[at++]!]
  return Array.from({ length: keys }, () => {
    const set = sets[doubles[at++]!]!
    const [back, ahead, need] = [pair(), pair(), pair()]
    const [ticket, count] = pair()
    return { set, back, ahead, need, ticket, list: Array.from({ length: count }, pair) }
  })
}
