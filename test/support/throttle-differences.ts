import { deciderOptions } from '../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../src/components/processors/throttle.js'
import { EventKey } from '../../src/components/throttle/buckets/event-key.js'
import { DiscardTally } from '../../src/components/throttle/counts/discard-tally.js'
import { createClockDecider, type Decider } from '../../src/components/throttle/decider.js'
import { DECISIONS, DISCARD, FULL } from '../../src/components/throttle/decisions.js'
import { HEAD_BYTES } from '../../src/components/throttle/persist/blocks.js'
import { SavedBuckets } from '../../src/components/throttle/persist/saved-buckets.js'
import type { Rule } from '../../src/components/throttle/rules/rule.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { FieldReader } from '../../src/core/event/field-reader.js'
import { MOST_LINES } from '../../src/lib/kernel/line-memory.js'
import { originOf } from './batches.js'
import { JsonLines } from './json-lines.js'
import { STOPPED_CLOCK } from './manual-time.js'
import { pooledLines } from './pooled-batch.js'
import { Seeded } from './seeded.js'

/** Decisions about whole batches, held to decisions about the same events one by one. */

const LIMITS: readonly Record<string, unknown>[] = [
  { limit: 1, window: '1s' },
  { limit: 3, window: '1s', window_mode: 'sliding' },
  { limit: 2, window: '1s', window_mode: 'aligned' },
  { limit: 2, window: '1s', window_mode: 'gcra' },
  { limit: 5, window: '1s', also: [{ limit: 7, window: '3s' }] },
]
const KEYS: readonly Record<string, unknown>[] = [
  {},
  { key_field: '.a' },
  { key_field: '.a' },
  { key_field: '.a' },
  { key_field: '.a' },
  { key_field: '.a', max_keys: 5 },
  { key_field: '.a', max_keys: 15, on_max_keys: 'discard' },
  { key_field: '.a', max_keys: 40 },
  { key_field: '.a', max_keys: 9, on_max_keys: 'default_bucket' },
  { key_field: '.a', max_keys: 200_000 },
  { key_field: '.list.a' },
  { key_field: '.raw' },
  { key_field: ['.a', '.b'] },
]
const exact = (most: number, more: Record<string, unknown> = {}) =>
  Array.from({ length: most }, (_, n) => ({ key: `app-${n}`, limit: 1 + (n % 4), ...more }))
/** Only with a key of one field. */
const RULES: readonly (readonly Record<string, unknown>[] | undefined)[] = [
  undefined,
  exact(3),
  exact(20),
  [...exact(10), { key: 'app*', limit: 2 }, { key: '*-2', limit: 'unlimited' }],
  exact(15, { window_mode: 'gcra' }).map((rule, n) => ({ ...rule, limit: 1 + n })),
  [{ key: 'app-1', limit: 'unlimited' }, { key: 'application-*', limit: 4, window_mode: 'sliding' }, ...exact(5)],
  [{ key: 'app-2', when: "if (.b equal 'web-08')", limit: 1 }, ...exact(4, { limit_bytes: 40 }), ...exact(9)],
  [...exact(2), { when: "if (.b equal 'web-08')", limit: 5 }],
]
const EXCLUDES: readonly Record<string, unknown>[] = [
  {},
  { exclude: "if (.b equal 'web-07')" },
  { exclude: "if (.a equal '')" },
  { exclude: "if (.b equal '7')" },
  { exclude: "if (NOT .b equal 'web-07')" },
  { exclude: `if (.b equal '${'x'.repeat(1100)}')` },
]

/** Decides on so many batches of up to 200 events in both ways. */
export function throttleDifferences(seed: number, batches: number) {
  const random = new Seeded(seed)
  const source = new JsonLines(random)
  const wrong: string[] = []
  let events = 0
  for (let done = 0; done < batches && wrong.length < 20; ) {
    const config = { ...random.pick(LIMITS), ...random.pick(KEYS), ...random.pick(EXCLUDES) }
    const hasKey = typeof config.key_field === 'string'
    const optionsWith = (limits: (typeof RULES)[number]) =>
      throttle.options.parse({ ...config, ...(limits && { limits }) })
    const [limits, others] = [random.pick(RULES), random.pick(RULES)]
    const hasRules = hasKey && limits !== undefined && random.chance(0.8)
    const options = optionsWith(hasRules ? limits : undefined)
    const persists = random.chance(0.5)
    let now = 0
    const [whole, single] = [0, 1].map(() => {
      const origin = originOf('json')
      const field = (path: ConstructorParameters<typeof FieldReader>[0]) => new FieldReader(path, origin.wanted)
      // The hash decides in which order buckets are saved.
      const compiled = { ...deciderOptions(options, { field }), seed }
      const further = hasRules ? deciderOptions(optionsWith(others), { field }).rules : undefined
      const rules: Side['rules'] = [compiled.rules ?? [], further ?? []]
      const decider = createClockDecider({ ...compiled, persists }, STOPPED_CLOCK)
      const { limiter } = decider
      const successor = () => createClockDecider({ ...compiled, persists }, STOPPED_CLOCK, limiter)
      const key = new EventKey(compiled.keyFields, seed)
      const saved = new SavedBuckets(limiter, () => now)
      return { origin, decider, successor, rules, tally: new DiscardTally(false), key, saved }
    }) as [Side, Side]
    const apps = random.pick([3, 3, 20, 20, 300, 3000])
    const most = random.pick([8, 40, 100, 200])
    const odd = random.pick([0.02, 0.02, 0.1, 1])
    const pauses = random.pick([
      [0, 0, 1, 100],
      [0, 1, 100, 300, 300, 700, 1000, 5000],
    ])
    for (let n = random.below(200); n >= 0; n--, done++) {
      now += random.pick(pauses)
      // The kernel takes that many at a time.
      const lines = random.chance(0.005) ? MOST_LINES + 1 + random.below(500) : 1 + random.below(most)
      const text = Array.from({ length: lines }, () => lineOf(random, source, apps, odd)).join('\n')
      const [a, b] = [batchOf(text, whole), batchOf(text, single)]
      for (let i = 0; i < a.length; i++) {
        if (!random.chance(0.1 * odd)) continue
        const fields = { a: `app-${random.below(apps)}`, b: 'web-07' }
        for (const batch of [a, b]) batch.modify(i, { ...fields })
      }
      if (random.chance(0.3)) for (const batch of [a, b]) changeAll(batch)
      if (hasRules && random.chance(0.05)) {
        const other = random.below(2)
        for (const { decider, rules } of [whole, single]) decider.setRules(rules[other]!)
      }
      // A new one tries again at once where its predecessor has left many batches to others.
      if (random.chance(0.1)) for (const side of [whole, single]) side.decider = side.successor()
      whole.decider.decideAt(a, now)
      single.decider.limiter.advance(now)
      const counts = new Uint32Array(DECISIONS)
      for (let i = 0; i < b.length; i++) {
        const decision = single.decider.decideOne(b, i, now)
        counts[decision]!++
        if (decision === whole.decider.decisions[i]) continue
        const line = b.chunk.toString('utf8', b.starts[i], b.ends[i])
        wrong.push(`${JSON.stringify(config)}: ${line}: ${whole.decider.decisions[i]} in the place of ${decision}`)
      }
      count(whole, a, whole.decider.decisions, now)
      count(single, b, whole.decider.decisions, now)
      if (random.chance(0.2)) {
        const [counted, wanted] = [drained(whole), drained(single)]
        if (counted !== wanted) wrong.push(`${JSON.stringify(config)}: ${counted} discarded in the place of ${wanted}`)
      }
      if (persists && random.chance(0.4) && !changesOf(whole).equals(changesOf(single))) {
        wrong.push(`${JSON.stringify(config)}: other buckets are saved`)
      }
      events += b.length
      if (`${counts}` !== `${whole.decider.counts}`) wrong.push(`${JSON.stringify(config)}: ${whole.decider.counts}`)
      const buckets = ({ decider: { limiter } }: Side) => `${limiter.keys} buckets, ${limiter.dropped} dropped`
      if (buckets(whole) !== buckets(single)) wrong.push(`${JSON.stringify(config)}: ${buckets(whole)}`)
      for (const batch of [a, b]) batch.ack.settle('delivered')
    }
  }
  return { wrong, events }
}

interface Side {
  readonly origin: ReturnType<typeof originOf>
  decider: Decider
  /** One that goes on with its buckets. */
  readonly successor: () => Decider
  /** Its rules, and others that may take their place. */
  readonly rules: readonly (readonly Rule[])[]
  readonly tally: DiscardTally
  readonly key: EventKey
  readonly saved: SavedBuckets
}

/** Counts discarded events by the ids of their buckets, where the decider has found these. */
function count({ decider: { keys }, tally, key }: Side, batch: EventBatch, decisions: Uint8Array, now: number): void {
  for (let i = 0; i < batch.length; i++) {
    if (decisions[i] !== DISCARD && decisions[i] !== FULL) continue
    if (keys && tally.addKnown(keys.owner, keys.ids[i]!, batch, i, now)) continue
    key.load(batch, i)
    tally.add(key, batch, i, now)
    if (keys) tally.know(keys.owner, keys.ids[i]!)
  }
}

/** The buckets that changed since the last call. */
function changesOf({ saved }: Side): Buffer {
  return Buffer.concat([...saved.blocks(false)].map(block => Buffer.from(block.subarray(HEAD_BYTES))))
}

function drained({ tally }: Side): string {
  const counts: unknown[] = []
  tally.drain(count => counts.push(count))
  return JSON.stringify(counts)
}

/** Gives most events the same fields as before, in the memory that the kernel reads. */
export function changeAll(batch: EventBatch): void {
  batch.remember()
  const texts = batch.textsToChange()
  texts.room(256 * 1024)
  for (let i = 0; i < batch.length; i++) {
    if (i % 9 < 8) {
      if (batch.isObject(i)) batch.changeTo(i, Buffer.from(batch.line(i)))
      continue
    }
    batch.modify(i, { a: 'app-0' })
    // Its slots stay, but are no longer valid after the event is restored.
    texts.slotStart(i, 0)
    batch.restoreEvent(i)
  }
}

/** Mostly with values that are plain strings. `odd`: how often not, in relation to what is usual. */
function lineOf(random: Seeded, source: JsonLines, apps: number, odd: number): string {
  if (random.chance(0.1 * odd)) return source.line().toString('latin1').replaceAll('\n', ' ')
  const app = keyOf(random, apps, odd)
  const host = random.pick(['"web-07"', '"web-08"', '"web-07x"', '"\\u0077eb-07"', '7', '"7"', 'null'])
  const members = [`"a":${app}`, `"b":${host}`, '"c":[1]'].filter(() => random.chance(1 - 0.05 * odd))
  return `{${(random.chance(0.5) ? members : members.reverse()).join(random.pick([',', ' , ']))}}`
}

/** The JSON of a key, mostly a string or an integer. */
function keyOf(random: Seeded, apps: number, odd: number): string {
  if (random.chance(0.05 * odd)) return random.pick(['""', 'null', '7.5', '"\\u0061"', '{}', '-0', '1e1', 'true'])
  const n = random.below(apps)
  if (random.chance(0.1)) return random.pick([`${n}`, `"${n}"`, `-${n}`, `"-${n}"`])
  const long = random.chance(odd) ? 'x'.repeat(random.below(300)) : 'app'
  return `"${random.pick(['app', 'app', 'application', 'a-key-of-more-than-sixteen', 'é', long])}-${n}"`
}

function batchOf(text: string, { origin }: Side): EventBatch {
  const batch = pooledLines(text, origin)
  batch.scan()
  return batch
}
