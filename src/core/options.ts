import { z } from 'zod'
import { parseDuration, parseSize } from '../lib/units.js'
import { type FieldPath, PathError, parseFieldPath } from './field-path.js'

/** Pieces of option schemas that several components share. Each is shown in the reference by its input side. */

const UNITS = ['Milliseconds', 'Seconds', 'Minutes', 'Hours'] as const

/** `10 Seconds`, `10s` or `{value: 10, unit: Seconds}`; milliseconds after parsing, at least `min`. */
export function duration(min = 1) {
  return z
    .union([z.string(), z.strictObject({ value: z.number().positive(), unit: z.enum(UNITS) })], {
      error: 'expected a duration such as "10 Seconds", "500ms" or {value: 10, unit: Seconds}',
    })
    .transform((input, context): number => {
      const ms = parseDuration(typeof input === 'string' ? input : `${input.value} ${input.unit}`)
      if (ms === undefined) {
        context.addIssue(
          `${JSON.stringify(input)} is not a duration; write "10 Seconds" or "500ms" (Milliseconds, Seconds, Minutes, Hours)`,
        )
        return z.NEVER
      }
      if (ms < min) context.addIssue(`must be at least ${min} ms`)
      return ms
    })
}

/** `1MB`, `64KiB` or a number of bytes; bytes after parsing. */
export function byteSize(min = 1, max = Number.MAX_SAFE_INTEGER) {
  return z
    .union([z.string(), z.int()], { error: 'expected a size such as "1MB", "64KiB" or a number of bytes' })
    .transform((input, context): number => {
      const bytes = typeof input === 'number' ? input : parseSize(input)
      if (bytes === undefined) {
        context.addIssue(`${JSON.stringify(input)} is not a size; write "1MB", "64KiB" or a number of bytes`)
        return z.NEVER
      }
      if (bytes < min) context.addIssue(`must be at least ${min} bytes`)
      if (bytes > max) context.addIssue(`must be at most ${max} bytes`)
      return Math.floor(bytes)
    })
}

/** `.app`, `.a."x-y"`, `.list[0]`. */
export function fieldPath() {
  return z.string().transform((text, context): FieldPath => {
    try {
      return parseFieldPath(text)
    } catch (error) {
      if (!(error instanceof PathError)) throw error
      context.addIssue(`${error.message} (column ${error.column})`)
      return z.NEVER
    }
  })
}

/** A regular expression as text, matched without flags but `u`. */
export function regex() {
  return z.string().transform((text, context): RegExp => {
    try {
      return new RegExp(text, 'u')
    } catch (error) {
      context.addIssue((error as Error).message)
      return z.NEVER
    }
  })
}
