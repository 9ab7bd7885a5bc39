import { withFileRules } from '../components/processors/throttle/limits-file.js'
import { CLOCK_MODES, type ThrottleConfig, throttleOptions } from '../components/processors/throttle/options.js'
import { UsageError } from '../daemon/process/command-line.js'
import { parseOptions } from '../engine/config/parse-options.js'
import { configOfFlags, flagOf, shellQuoted, type ThrottleFlags } from './throttle-flags.js'

/** The options of the command line that change the throttle. */
export interface ChangedOptions {
  /** Each string may hold several values, separated by commas. */
  readonly limit: readonly string[]
  readonly 'limit-bytes': readonly string[]
  readonly window: readonly string[]
  /** A path, or a list of paths in brackets. */
  readonly key: readonly string[]
  readonly exclude: string | undefined
  readonly 'window-mode': string | undefined
}

/** One combination of options. `given`: as in a configuration file. `options`: parsed. */
export interface Variant {
  readonly given: Readonly<Record<string, unknown>>
  readonly options: ThrottleConfig
}

const MOST_VARIANTS = 400

/** One variant for every combination of keys, windows and limits. Other options are from `base`. Throws UsageError. */
export function variantsOf(base: Readonly<Record<string, unknown>>, changes: ChangedOptions): Variant[] {
  const { exclude, 'window-mode': mode } = changes
  const common = configOfFlags({ exclude, 'window-mode': mode }, 'simulate')
  // These modes follow the clock, which the simulation sets to the time of each event.
  const { time_field, allowed_lateness, on_late, ...onClock } = base
  const given = CLOCK_MODES.includes(mode) ? onClock : base
  const combined = listOf(changes.key, false).flatMap(key =>
    listOf(changes.window).flatMap(window =>
      listOf(changes['limit-bytes']).flatMap(bytes =>
        listOf(changes.limit).map(limit => ({ key, window, 'limit-bytes': bytes, limit })),
      ),
    ),
  )
  if (combined.length > MOST_VARIANTS) {
    const message = `${combined.length} combinations of limits, windows and keys; at most ${MOST_VARIANTS} are tried at once`
    throw new UsageError(message, 'simulate')
  }
  return combined.map(flags =>
    variantOf({ ...given, ...common, ...configOfFlags(flags, 'simulate') }, { ...flags, exclude, 'window-mode': mode }),
  )
}

/** Parses the options of a throttle. If an option is invalid and a flag has set it, the error names the flag. */
export function variantOf(given: Readonly<Record<string, unknown>>, flags: ThrottleFlags): Variant {
  const parsed = parseOptions(throttleOptions, given)
  if ('value' in parsed) return { given, options: withFileRules(parsed.value) }
  const { path, message } = parsed.faults[0]!
  const flag = flagOf(path)
  const name = flag !== undefined && (flags[flag] !== undefined || given[path] === undefined) ? `--${flag}` : path
  throw new UsageError(`${name}: ${message}`, 'simulate')
}

/** The values without repetitions. If `values` is empty, returns `[undefined]`. */
function listOf(values: readonly string[], divide = true): (string | undefined)[] {
  if (values.length === 0) return [undefined]
  const all = values.flatMap(value => (divide ? value.split(',').map(part => part.trim()) : [value]))
  return [...new Set(all)]
}

export function typedOptions(changes: ChangedOptions): string[] {
  const { limit, 'limit-bytes': bytes, window, key, exclude, 'window-mode': mode } = changes
  return [
    ...limit.map(value => `--limit ${shellQuoted(value)}`),
    ...bytes.map(value => `--limit-bytes ${shellQuoted(value)}`),
    ...window.map(value => `--window ${shellQuoted(value)}`),
    ...key.map(value => `--key ${shellQuoted(value)}`),
    ...(exclude === undefined ? [] : [`--exclude ${shellQuoted(exclude)}`]),
    ...(mode === undefined ? [] : [`--window-mode ${shellQuoted(mode)}`]),
  ]
}
