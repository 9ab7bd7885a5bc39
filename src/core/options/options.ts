import { z } from 'zod'
import type { ListenAddress } from '../../lib/network/inherited-sockets.js'
import { Pattern, PatternError } from '../../lib/pattern.js'
import { parseDuration, parseSize } from '../../lib/units.js'
import { type FieldPath, PathError, parseFieldPath } from '../event/field-path.js'

/** Option schemas shared by several components. The reference shows their input types. */

/**
 * Makes `build` return the same schema for the same arguments, which is safe because schemas are immutable. Building a
 * new schema for every option would noticeably slow each start.
 */
export function once<A extends (number | undefined)[], S>(build: (...args: A) => S): (...args: A) => S {
  const built = new Map<string, S>()
  return (...args) => {
    const key = args.join()
    const schema = built.get(key) ?? build(...args)
    built.set(key, schema)
    return schema
  }
}

const UNITS = ['Milliseconds', 'Seconds', 'Minutes', 'Hours', 'Days']
const DURATION = 'must be a duration such as "10 Seconds", "500ms" or {value: 10, unit: Seconds}'
const SIZE = 'must be a size such as "1MB", "64KiB" or a number of bytes'
const FIELD_PATH = 'must be a field path, which starts with a dot, as in .app'
const ADDRESS = 'must be HOST:PORT, as in 127.0.0.1:9598 or [::1]:9598, or systemd:NAME'

/**
 * Adds an issue with a constant message that does not contain the value. The message may thus be shown even if the
 * value is a secret or came from the environment. With `show`, the value as written in the file is appended.
 */
export function refuse(context: z.RefinementCtx, message: string, show = false): never {
  context.addIssue({ code: 'custom', message, params: { constant: true, show } })
  return z.NEVER
}

/** Like `refuse`, with the value in the message. If the value is from the environment, shows `general` instead. */
function refuseValue(context: z.RefinementCtx, message: string, general: string, at: readonly number[] = []): never {
  context.addIssue({ code: 'custom', message, path: [...at], params: { general } })
  return z.NEVER
}

/** Like `refuse`, for a nested option. */
export function refuseAt(context: z.RefinementCtx, path: (string | number)[], message: string): void {
  context.addIssue({ code: 'custom', message, path, params: { constant: true } })
}

const withoutUnit = (amount: number | string) => `has no unit; write ${amount}s for seconds, or ${amount}ms`

/** Parses `10 Seconds`, `10s` or `{value: 10, unit: Seconds}` to milliseconds, at least `min`. 0 needs no unit. */
export const duration = once((min = 1) => {
  const unit = z
    .string()
    .refine(text => parseDuration(`1 ${text}`) !== undefined, `must be one of ${UNITS.join(', ')}`)
    .meta({ examples: UNITS })
  const value = min === 0 ? z.number().nonnegative() : z.number().positive()
  const tooShort = `must be at least ${min} ms`
  return z
    .union([z.string(), z.strictObject({ value, unit }), ...(min === 0 ? [z.literal(0)] : [])], {
      error: ({ input }) =>
        input === 0 ? tooShort : typeof input === 'number' && input > 0 ? withoutUnit(input) : DURATION,
    })
    .meta({ title: 'duration', ...(min === 1 ? {} : { minimum: min }) })
    .transform((input, context): number => {
      const text = typeof input === 'object' ? `${input.value} ${input.unit}` : `${input}`.trim()
      const isAmount = /^\d+(\.\d+)?$/.test(text)
      const ms = isAmount && Number(text) === 0 ? 0 : parseDuration(text)
      if (ms === undefined)
        return isAmount ? refuseValue(context, withoutUnit(text), DURATION) : refuse(context, DURATION, true)
      if (ms < min) refuse(context, tooShort, true)
      if (ms > Number.MAX_SAFE_INTEGER) refuse(context, 'must be shorter', true)
      return ms
    })
})

/** Parses `1MB`, `64KiB` or a number of bytes to bytes. */
export const byteSize = once((min = 1, max = Number.MAX_SAFE_INTEGER) => {
  return z
    .union([z.string(), z.int()], { error: SIZE })
    .meta({
      title: 'size',
      ...(min > 1 ? { minimum: min } : {}),
      ...(max < Number.MAX_SAFE_INTEGER ? { maximum: max } : {}),
    })
    .transform((input, context): number => {
      const bytes = typeof input === 'number' ? input : parseSize(input)
      if (bytes === undefined) return refuse(context, SIZE, true)
      if (bytes < min) refuse(context, min === 0 ? 'must not be negative' : `must be at least ${min} bytes`, true)
      if (bytes > max) refuse(context, `must be at most ${max} bytes`, true)
      return Math.floor(bytes)
    })
})

/** Text that is never printed by accident: not as a string, nor in JSON, a log or a stack trace. */
export class Secret {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  reveal(): string {
    return this.#text
  }

  toString(): string {
    return '[secret]'
  }

  toJSON(): string {
    return '[secret]'
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return '[secret]'
  }
}

export const secret = once(() => {
  return z
    .string()
    .min(1)
    .meta({ title: 'secret', writeOnly: true })
    .transform(text => new Secret(text))
})

const withoutHost = (port: number | string) =>
  `has no host; write 127.0.0.1:${port} for programs on this machine only, or 0.0.0.0:${port} for all`

/** Parses `127.0.0.1:9598` or `[::1]:9598`. Port 0 means any free port. `systemd:NAME` is an inherited socket. */
export const listenAddress = once(() => {
  return z
    .string({ error: ({ input }) => (isPort(input) ? withoutHost(Number(input)) : undefined) })
    .meta({ title: 'address' })
    .transform((text, context): ListenAddress => {
      const inherited = /^systemd:([\w.-]+)$/.exec(text)
      if (inherited && !/^\d+$/.test(inherited[1]!)) return { systemd: inherited[1]! }
      const port = text.trim().replace(/^[:*]*/, '')
      if (isPort(port)) return refuseValue(context, withoutHost(port), ADDRESS)
      const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]/]+)):(\d{1,5})$/.exec(text)
      if (!match || Number(match[3]) > 65_535) return refuse(context, ADDRESS, true)
      return { host: match[1] ?? match[2]!, port: Number(match[3]) }
    })
})

function isPort(value: unknown): boolean {
  const text = typeof value === 'number' || typeof value === 'string' ? String(value) : ''
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535
}

export const fieldPath = once(() => {
  return z
    .string()
    .meta({ title: 'field path' })
    .transform((text, context) => readPath(text, context))
})

/** Parses `auto` or the path of a field that contains a time. */
export const timeField = once(() => {
  return z
    .string()
    .meta({ title: 'field path' })
    .transform((text, context) => (text === 'auto' ? text : readPath(text, context)))
})

const MOST_FIELD_PATHS = 16

/** Parses a field path, or a list of them. If the option has no value, the list is empty. */
export const fieldPaths = once(() => {
  return z
    .union([z.string().nullish(), z.array(z.string())], {
      error: 'must be a field path, as in .app, or a list of field paths, as in [.app, .host]',
    })
    .meta({ title: 'field path' })
    .transform((input, context): readonly FieldPath[] => {
      if (!Array.isArray(input)) return input ? [readPath(input, context)] : []
      if (input.length === 0 || input.length > MOST_FIELD_PATHS)
        refuse(context, `must be a list of 1 to ${MOST_FIELD_PATHS} field paths`)
      return input.map((text, i) => readPath(text, context, [i]))
    })
})

function readPath(text: string, context: z.RefinementCtx, at: readonly number[] = []): FieldPath {
  try {
    return parseFieldPath(text)
  } catch (error) {
    if (!(error instanceof PathError)) throw error
    return refuseValue(context, `${error.message} (column ${error.column} of the path)`, FIELD_PATH, at)
  }
}

/** Parses a regular expression. Its only flag is `u`. */
export const regex = once(() => {
  return z
    .string()
    .meta({ title: 'regular expression' })
    .transform((text, context): Pattern => {
      try {
        return new Pattern(text)
      } catch (error) {
        if (!(error instanceof PatternError)) throw error
        context.addIssue(error.message)
        return z.NEVER
      }
    })
})
