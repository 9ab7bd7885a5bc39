import { type Fault, parseOptions } from '../config/parse-options.js'
import { type FieldPath, PathError, parseFieldPath } from '../core/event/field-path.js'
import { someThrottleOptions, type ThrottleOptions, throttleOptions } from '../processors/throttle/options.js'
import { type Io, UsageError } from '../terminal/command-line.js'
import { conditionOf } from '../terminal/condition-flag.js'

/** Command line flags that set options of a throttle. */
const FLAGS = {
  limit: 'limit',
  window: 'window',
  key: 'key_field',
  exclude: 'exclude',
  'window-mode': 'window_mode',
  time: 'time_field',
} as const
type Flag = keyof typeof FLAGS
export type ThrottleFlags = { readonly [F in Flag]?: string | undefined }

/** A throttle defined by flags only. Throws UsageError, which names the flag and `command`. */
export function throttleOfFlags(given: ThrottleFlags, command: string, io: Pick<Io, 'stderr'>): ThrottleOptions {
  const parsed = parseOptions(throttleOptions, inputOf(given, command, io))
  if ('value' in parsed) return parsed.value
  throw usageError(parsed.faults[0]!, command)
}

/** The throttle options that the flags change, and these flags as one would type them. Throws UsageError. */
export function changesOfFlags(
  given: ThrottleFlags,
  command: string,
  io: Pick<Io, 'stderr'>,
): { readonly options: Partial<ThrottleOptions>; readonly typed: readonly string[] } {
  const input = inputOf(given, command, io)
  const parsed = parseOptions(someThrottleOptions, input)
  if ('faults' in parsed) throw usageError(parsed.faults[0]!, command)
  const values = parsed.value as Record<string, unknown>
  return {
    options: Object.fromEntries(Object.keys(input).map(name => [name, values[name]])),
    typed: usedOf(given).map(flag => `--${flag} ${quoted(given[flag]!)}`),
  }
}

const usedOf = (given: ThrottleFlags) => (Object.keys(FLAGS) as Flag[]).filter(flag => given[flag] !== undefined)

/** The flags as options of a configuration file. */
function inputOf(given: ThrottleFlags, command: string, io: Pick<Io, 'stderr'>): Record<string, unknown> {
  const value = (flag: Flag, text: string) => {
    if (flag === 'limit') return numberOf(text)
    return flag === 'exclude' ? conditionOf(text, flag, command, io) : text
  }
  return Object.fromEntries(usedOf(given).map(flag => [FLAGS[flag], value(flag, given[flag]!)]))
}

function usageError({ path, message }: Fault, command: string): UsageError {
  const flag = (Object.keys(FLAGS) as Flag[]).find(name => FLAGS[name] === path) ?? path
  return new UsageError(`--${flag}: ${message}`, command)
}

/** The path in a flag; throws UsageError. */
export function parsePathFlag(text: string, flag: string, command: string): FieldPath {
  try {
    return parseFieldPath(text)
  } catch (error) {
    if (!(error instanceof PathError)) throw error
    throw new UsageError(`--${flag}: ${error.message} (column ${error.column})`, command)
  }
}

/** Quoted for a shell. */
function quoted(text: string): string {
  return /^[\w.:/-]+$/.test(text) ? text : `"${text.replace(/["\\$`]/g, '\\$&')}"`
}

function numberOf(text: string): number | string {
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text
}
