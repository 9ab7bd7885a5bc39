import type { Entry, Store } from '../../../src/service/api/store/store.js'
import type { World } from '../world.js'

/** What the store may hold of a key: what was acknowledged last, and what may have been saved since. */
interface Known {
  readonly acknowledged: number
  readonly possible: readonly number[]
}

/** Keys are written in pairs: both of a pair, or none. */
const SIDES = ['x', 'y']
const PREFIX = 'pair/'
const keyOf = (pair: number, side: string) => `${PREFIX}${pair}/${side}`
export const PAIRS = 4

interface Value {
  readonly n: number
  readonly pad: string
}

/** Writes to a store, and what has to be in it after them. */
export class Writes {
  readonly #world: World
  readonly #known = new Map<number, Known>()
  /** Pairs that are being written. */
  readonly #busy = new Set<number>()
  #next = 1
  /** Prefixes that were reported as changed, since this was last emptied. */
  changes = 0

  constructor(world: World) {
    this.#world = world
  }

  #of(pair: number): Known {
    return this.#known.get(pair) ?? { acknowledged: 0, possible: [] }
  }

  /** Writes a pair. Resolves with whether that was acknowledged. */
  async write(store: Store, pair: number, expects: boolean): Promise<boolean> {
    if (this.#busy.has(pair)) return false
    this.#busy.add(pair)
    const n = this.#next++
    const value: Value = { n, pad: '.'.repeat(this.#world.random.below(300)) }
    const keys = SIDES.map(side => keyOf(pair, side))
    try {
      const expected: Entry[] = expects ? [{ key: keys[0]!, value: await store.get(keys[0]!) }] : []
      const before = this.#of(pair)
      this.#known.set(pair, { ...before, possible: [...before.possible, n] })
      const changes = this.changes
      await store.write(
        keys.map(key => ({ key, value })),
        expected,
      )
      if (this.changes === changes) this.#world.violate(`store: ${n} was written, and nobody heard of it`)
      this.#known.set(pair, { acknowledged: n, possible: [] })
      this.#world.say(() => `store: ${n} is saved as pair ${pair}`)
      await this.check(store, pair)
      return true
    } catch (error) {
      this.#world.say(() => `store: ${n} may be saved as pair ${pair}: ${error}`)
      return false
    } finally {
      this.#busy.delete(pair)
    }
  }

  /** The process was killed: nothing is being written. */
  killed(): void {
    this.#busy.clear()
  }

  /** Whether the store holds what it has to. */
  async check(store: Store, pair: number): Promise<void> {
    const { acknowledged, possible } = this.#of(pair)
    const list = await store.list(`${PREFIX}${pair}/`)
    const numbers = list.map(({ value }) => (value as Value).n)
    const [first = 0, second = 0] = numbers
    const now = this.#of(pair)
    // It was written to meanwhile.
    if (now.acknowledged !== acknowledged || now.possible.length !== possible.length) return
    if (numbers.length === 1 || first !== second)
      this.#world.violate(`store: half of a write: pair ${pair} has ${numbers.join(' and ')}`)
    else if (first !== acknowledged && !possible.includes(first))
      this.#world.violate(`store: lost: pair ${pair} has ${first}, and ${acknowledged} was acknowledged`)
  }

  /** After a start nothing is on its way: what is there is what there is. */
  async checkAll(store: Store): Promise<void> {
    for (let pair = 0; pair < PAIRS; pair++) {
      await this.check(store, pair)
      const [first] = await store.list(`${PREFIX}${pair}/`)
      this.#known.set(pair, { acknowledged: (first?.value as Value | undefined)?.n ?? 0, possible: [] })
    }
  }
}
