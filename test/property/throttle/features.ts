import type { Seeded } from '../../support/seeded.js'
import type { Options } from './model.js'

/** The options of a throttle that scenarios combine, and which of them `validate` refuses together. */

export const MODES = ['fixed', 'aligned', 'sliding', 'gcra', 'quota'] as const
export type Mode = (typeof MODES)[number]
export const TIMES = ['clock', 'event'] as const
export type Time = (typeof TIMES)[number]

export const WINDOWS = ['100ms', '1s', '1500 Milliseconds', '10 Seconds']
const CONDITIONS = ["if (.lv equal 'error')", "if (.h equal 'h1')", 'if (.c exists)']
const PATTERNS = ['a', 'a*', '?', '[ab]', '[!a]*', '{b,c1}', '*1*', '\\*']
/** The bracket at the beginning is that of the list. */
const LIST_PATTERNS = ['[*', '["a"*', '*h1*']

/** What several features need to know of the others. */
interface Made {
  readonly options: Options
  readonly mode: Mode
  readonly random: Seeded
}

/** The window modes of further limits and of rules. */
const modesOf = ({ time_field }: Options) =>
  time_field === undefined ? ['fixed', 'aligned', 'sliding', 'gcra'] : ['fixed', 'aligned']

const limits = ({ options, mode, random }: Made): Options => ({
  limit: 1 + random.below(4),
  // A quota alone has no window that a rule could take.
  ...((mode === 'quota' || random.chance(0.5)) && { window: random.pick(WINDOWS) }),
  ...(random.chance(0.3) && { window_mode: random.pick(modesOf(options)) }),
})

function addRule(made: Made, rule: Options): void {
  const { options, random } = made
  const before = (options.limits as Options[] | undefined) ?? []
  options.limits = random.chance(0.5) ? [...before, rule] : [rule, ...before]
}

const keyed = ({ options }: Made) => {
  options.key_field ??= '.k'
}

const persisted = ({ options }: Made) => {
  options.persist = true
}

const summary = (made: Made, to: string) => {
  const { options, random } = made
  options.summary = { every: random.pick(['500ms', '900ms', '3s']), to, max_per_interval: random.pick([1, 2, 1000]) }
}

const full = (made: Made, on: string) => {
  keyed(made)
  made.options.max_keys = 1 + made.random.below(4)
  made.options.on_max_keys = on
}

/** Adds each option to a configuration. Those with the same word before the colon are values of one option. */
export const FEATURES: Record<string, (made: Made) => void> = {
  key_field: keyed,
  'key_field:list': made => {
    made.options.key_field = ['.k', '.h']
  },
  limit_bytes: ({ options, mode, random }) => {
    const size = random.pick([60, 150, '1KiB'])
    if (mode === 'quota') (options.quota as Options).limit_bytes = size
    else options.limit_bytes = size
  },
  'limit_bytes:alone': ({ options, mode, random }) => {
    const of = mode === 'quota' ? (options.quota as Options) : options
    delete of.limit
    of.limit_bytes = random.pick([60, 150, 400])
  },
  cost: ({ options }) => {
    options.cost = '.c'
  },
  also: ({ options, random }) => {
    const more = (): Options => {
      const window_mode = random.pick([undefined, ...modesOf(options)])
      return {
        [random.pick(['limit', 'limit', 'limit_bytes'])]: 1 + random.below(200),
        window: random.pick(WINDOWS),
        ...(window_mode && { window_mode }),
        ...(window_mode === 'gcra' && random.chance(0.5) && { burst: random.below(4) }),
      }
    }
    options.also = [{ ...more(), limit: 2 + random.below(6) }, ...(random.chance(0.3) ? [more()] : [])]
  },
  quota: ({ options, random }) => {
    options.quota ??= { limit: 1 + random.below(12), per: random.pick(['hour', 'day', 'week', 'month']) }
  },
  'quota:time_zone': ({ options, random }) => {
    const time_zone = random.pick(['Europe/Berlin', 'Asia/Kathmandu', 'America/Santiago'])
    options.quota = {
      limit: 1 + random.below(8),
      per: random.pick(['hour', 'day']),
      ...(options.quota as Options),
      time_zone,
    }
  },
  burst: ({ options, random }) => {
    options.burst = random.below(4)
  },
  'limits:when': made => addRule(made, { when: made.random.pick(CONDITIONS), ...limits(made) }),
  'limits:key': made => {
    keyed(made)
    const { options, random } = made
    const patterns = [...PATTERNS, ...(Array.isArray(options.key_field) ? LIST_PATTERNS : ['[[]*'])]
    for (let rules = 2 + random.below(4); rules > 0; rules--)
      addRule(made, {
        key: random.pick(patterns),
        ...(random.chance(0.5) && { when: random.pick(CONDITIONS) }),
        ...limits(made),
      })
  },
  'limits:unlimited': made => addRule(made, { when: made.random.pick(CONDITIONS), limit: 'unlimited' }),
  limits_file: made => {
    made.options.limits_file = 'limits.yaml'
  },
  exclude: ({ options, random }) => {
    options.exclude = random.pick(CONDITIONS)
  },
  mode: ({ options }) => {
    options.mode = 'shadow'
  },
  'over_limit:mark': ({ options }) => {
    options.over_limit = 'mark'
  },
  'over_limit:pass_one_in': ({ options, random }) => {
    options.over_limit = { pass_one_in: 2 + random.below(3) }
  },
  'over_limit:wait': ({ options, random }) => {
    options.over_limit = { wait: random.pick(['250ms', '2 Seconds', '20s']) }
  },
  'on_backlog:as_live': ({ options }) => {
    options.on_backlog = 'as_live'
  },
  'on_backlog:pace': ({ options }) => {
    options.on_backlog = 'pace'
  },
  'on_backlog:pass': ({ options }) => {
    options.on_backlog = 'pass'
  },
  max_delay: ({ options, random }) => {
    options.max_delay = random.pick(['250ms', '2s', '30s'])
  },
  annotate: ({ options }) => {
    options.annotate = true
  },
  'summary:passed': made => summary(made, 'passed'),
  'summary:discarded': made => summary(made, 'discarded'),
  'summary:both': made => summary(made, 'both'),
  per_key_metrics: ({ options, random }) => {
    options.per_key_metrics = { top: 1 + random.below(3), every: random.pick(['1ms', '2s']) }
  },
  'max_keys:pass': made => full(made, 'pass'),
  'max_keys:default_bucket': made => full(made, 'default_bucket'),
  'max_keys:discard': made => full(made, 'discard'),
  allowed_lateness: ({ options, random }) => {
    options.allowed_lateness = random.pick(['0ms', '300ms', '3s'])
  },
  on_late: ({ options, random }) => {
    options.on_late = random.pick(['pass', 'discard'])
  },
  // A throttle that keeps its buckets is stopped or killed, and goes on with its files.
  'persist:restart': persisted,
  'persist:kill': persisted,
  // A scenario may also have a reload to the same options, or to others, or a limits file that changes.
  reload: () => {},
  'reload:changed': () => {},
  'limits_file:changes': made => {
    made.options.limits_file = 'limits.yaml'
  },
}
export const NAMES = Object.keys(FEATURES)

const optionOf = (name: string) => name.split(':')[0]!
/** Rules of different kinds go together, and so do a file and its change, two zones of a quota, or a stop and a kill. */
const TOGETHER = ['limits', 'limits_file', 'quota', 'reload', 'persist']

/** Whether two features are two options, and not two values of one. */
export const areTwo = (a: string, b: string) =>
  a !== b && (optionOf(a) !== optionOf(b) || TOGETHER.includes(optionOf(a)))

export interface Refusal {
  readonly name: string
  /** The option with the error. */
  readonly path: string
  readonly holds: (options: Options, has: (name: string) => boolean) => boolean
}

/** The combinations that `validate` refuses. */
export const REFUSED: readonly Refusal[] = [
  {
    name: 'burst without window_mode: gcra',
    path: 'burst',
    holds: ({ window_mode }, has) => has('burst') && window_mode !== 'gcra',
  },
  {
    name: 'cost where no limit is of events',
    path: 'cost',
    holds: ({ limit, also, quota }, has) =>
      has('cost') && limit === undefined && also === undefined && (quota as Options | undefined)?.limit === undefined,
  },
  {
    name: 'window_mode: sliding or gcra with time_field',
    path: 'window_mode',
    holds: ({ window_mode, time_field }) =>
      time_field !== undefined && (window_mode === 'sliding' || window_mode === 'gcra'),
  },
  {
    name: 'over_limit: wait with time_field',
    path: 'over_limit',
    holds: ({ time_field }, has) => has('over_limit:wait') && time_field !== undefined,
  },
  {
    name: 'max_delay without on_backlog: pace',
    path: 'max_delay',
    holds: (_, has) => has('max_delay') && !has('on_backlog:pace'),
  },
  {
    name: 'allowed_lateness without time_field',
    path: 'allowed_lateness',
    holds: ({ time_field }, has) => has('allowed_lateness') && time_field === undefined,
  },
  {
    name: 'on_late without time_field',
    path: 'on_late',
    holds: ({ time_field }, has) => has('on_late') && time_field === undefined,
  },
]
