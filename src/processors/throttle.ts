import { randomInt } from 'node:crypto'
import { z } from 'zod'
import { compileCondition, condition } from '../condition/condition.js'
import type { EventBatch } from '../core/batch.js'
import { BatchTransform, SideOutlet } from '../core/batch-transform.js'
import { type ComponentContext, defineProcessor } from '../core/component.js'
import { blankOrFieldPath, duration } from '../core/options.js'
import { type DeciderOptions, EXCLUDED, FAIL_OPEN } from '../throttle/decider.js'
import { DISCARD, FULL, PASS } from '../throttle/keyed-limiter.js'
import { LiveDecider } from '../throttle/live-decider.js'

const options = z.strictObject({
  limit: z.int().min(1).max(0xffffffff).describe('How many events of one bucket pass in one window.'),
  window: duration().describe('Length of the window.'),
  key_field: blankOrFieldPath().describe(
    'Field whose value groups events into buckets. Events without a value share the default bucket; blank, all do.',
  ),
  exclude: condition().optional().describe('Events that match pass and do not count.'),
  window_mode: z
    .enum(['fixed', 'aligned', 'sliding'])
    .default('fixed')
    .describe(
      'fixed: a window opens at the first event that its bucket counts. aligned: windows start at the multiples of the window since the epoch. sliding: the window ends now.',
    ),
  max_keys: z.int().min(1).max(10_000_000).default(100_000).describe('Most buckets in memory at a time.'),
  on_max_keys: z
    .enum(['default_bucket', 'pass', 'discard'])
    .default('pass')
    .describe('What happens to events of a new key beyond max_keys. A window that is open is never forgotten for it.'),
})
export type ThrottleOptions = z.output<typeof options>

/** The Decider options that the component's options mean. */
export function deciderOptions(
  options: ThrottleOptions,
  context: Pick<ComponentContext, 'field'>,
  seed: number,
): DeciderOptions {
  return {
    limit: options.limit,
    windowMs: options.window,
    mode: options.window_mode,
    maxKeys: options.max_keys,
    onMaxKeys: options.on_max_keys,
    exclude: options.exclude && compileCondition(options.exclude, path => context.field(path)),
    keyField: options.key_field && context.field(options.key_field),
    seed,
  }
}

class Throttle extends BatchTransform {
  override readonly outlets = { discarded: new SideOutlet() }
  readonly #decider: LiveDecider
  readonly #passed: { value: number }
  readonly #excluded: { value: number }
  readonly #discarded: { value: number }
  readonly #failOpen: { value: number }

  constructor(options: ThrottleOptions, context: ComponentContext) {
    super(context)
    const { clock, metrics } = context
    this.#decider = new LiveDecider(deciderOptions(options, context, randomInt(2 ** 31)), clock)
    const count = (decision: string) =>
      metrics.counter('sluice_throttle_events_total', 'Events by what the throttle decided.', { decision })
    this.#passed = count('passed')
    this.#excluded = count('excluded')
    this.#discarded = count('discarded')
    this.#failOpen = count('fail_open')
    const help = 'Buckets in memory, without the default one.'
    metrics.gauge('sluice_throttle_buckets', help, () => this.#decider.buckets)
  }

  protected override apply(batch: EventBatch): void {
    const { counts, decisions } = this.#decider.decide(batch)
    this.#passed.value += counts[PASS]!
    this.#excluded.value += counts[EXCLUDED]!
    this.#failOpen.value += counts[FAIL_OPEN]!
    this.#discarded.value += counts[DISCARD]! + counts[FULL]!
    if (counts[DISCARD]! + counts[FULL]! === 0) return
    const reason = counts[FULL] === 0 ? 'throttled' : (i: number) => (decisions[i] === FULL ? 'max_keys' : 'throttled')
    this.discard(batch, i => decisions[i] !== DISCARD && decisions[i] !== FULL, reason, this.outlets.discarded)
  }
}

export const throttle = defineProcessor({
  type: 'throttle',
  summary: 'Passes at most `limit` events of each bucket in each window, and discards the rest.',
  notes:
    'Discarded events are counted (reason `throttled`, or `max_keys`) and can be read at the output `discarded`. Time is the monotonic clock, read once per batch.',
  options,
  outlets: ['discarded'],
  examples: [
    {
      title: 'One event a second of each app; one host is exempt',
      yaml: `limit: 1\nwindow: 1 Seconds\nkey_field: .app\nexclude: if (.host equal 'edge-1')\n`,
      input: [
        '{"app":"a","host":"h1"}',
        '{"app":"b","host":"h2"}',
        '{"app":"a","host":"h1"}',
        '{"app":"a","host":"edge-1"}',
        '{"app":"b","host":"h1"}',
        '{"app":"a","host":"h2"}',
      ],
      output: ['{"app":"a","host":"h1"}', '{"app":"b","host":"h2"}', '{"app":"a","host":"edge-1"}'],
    },
  ],
  create: (options, context) => new Throttle(options, context),
})
