import { type ThrottleConfig, throttleOptions } from '../components/processors/throttle/options.js'
import type { Fault } from '../core/errors.js'
import { type FieldPath, PathError, parseFieldPath } from '../core/event/field-path.js'
import { UsageError, wholeNumber } from '../daemon/process/command-line.js'
import { parseOptions } from '../engine/config/parse-options.js'

/** Command line flags that set options of a throttle. */
const FLAGS = {
  limit: 'limit',
  'limit-bytes': 'limit_bytes',
  window: 'window',
  key: 'key_field',
  exclude: 'exclude',
  'window-mode': 'window_mode',
  time: 'time_field',
} as const
export type Flag = keyof typeof FLAGS
export type ThrottleFlags = { readonly [F in Flag]?: string | undefined }

/** The options of a throttle that is defined only by flags. Throws a UsageError that names the flag and `command`. */
export function throttleOfFlags(given: ThrottleFlags, command: string): ThrottleConfig {
  const parsed = parseOptions(throttleOptions, configOfFlags(given, command))
  if ('value' in parsed) return parsed.value
  throw usageError(parsed.faults[0]!, command)
}

const usedOf = (given: ThrottleFlags) => (Object.keys(FLAGS) as Flag[]).filter(flag => given[flag] !== undefined)

/** The flags as options of a configuration file. Throws a UsageError that names `command`. */
export function configOfFlags(given: ThrottleFlags, command: string): Record<string, unknown> {
  const value = (flag: Flag, text: string) => {
    if (flag === 'limit') return wholeNumber(text, flag, command)
    // A number without a unit is a number of bytes.
    if (flag === 'limit-bytes' && /^-?\d+(\.\d+)?$/.test(text)) return Number(text)
    if (flag === 'key') return pathsOf(text)
    return text
  }
  return Object.fromEntries(usedOf(given).map(flag => [FLAGS[flag], value(flag, given[flag]!)]))
}

function usageError({ path, message }: Fault, command: string): UsageError {
  return new UsageError(`--${flagOf(path) ?? path}: ${message}`, command)
}

/** The flag that sets an option. `path`: the path of the option, or of a part of the option. */
export function flagOf(path: string): Flag | undefined {
  const option = /^\w*/.exec(path)![0]
  return (Object.keys(FLAGS) as Flag[]).find(name => FLAGS[name] === option)
}

/**
 * Returns the paths of a list such as `[.app, .host]`. A text that is not a list is one path, and is returned as it is.
 */
function pathsOf(text: string): string | string[] {
  const list = /^\s*\[(.*)\]\s*$/s.exec(text)
  return list ? list[1]!.split(',').map(path => path.trim()) : text
}

export function parsePathFlag(text: string, flag: string, command: string): FieldPath {
  try {
    return parseFieldPath(text)
  } catch (error) {
    if (!(error instanceof PathError)) throw error
    throw new UsageError(`--${flag}: ${error.message} (column ${error.column})`, command)
  }
}

/** Quoted for a shell. */
export function shellQuoted(text: string): string {
  return /^[\w.:/-]+$/.test(text) ? text : `"${text.replace(/["\\$`]/g, '\\$&')}"`
}
