import { z } from 'zod'
import { isMapping } from '../../core/codec.js'
import { duration } from '../../core/options/options.js'
import { trimKey } from '../../net/key.js'
import { HEALTHS, time } from './documents.js'
import { ENTERPRISE_SCOPES, ROLES, SCOPES } from './scopes.js'

/** The inputs of requests. Every part is limited in size. */

const DAY_MS = 86_400_000
const LONGEST_TITLE = 200
/**
 * The inside of a character class: control characters, and characters that change the direction of text. `\p{Cc}` is
 * not used, because the API description contains this text, and some programs that read the description do not support
 * `\p{Cc}`.
 */
const UNSHOWABLE = String.raw`\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069`
const SHOWABLE = new RegExp(`^[^${UNSHOWABLE}]*$`, 'u')
const EMAIL = new RegExp(String.raw`^[^\s@<>"(),:;\\[\]${UNSHOWABLE}]{1,64}@[^\s@<>"(),:;\\[\]${UNSHOWABLE}]+$`, 'u')

const text = (most: number) => showable(z.string().trim().min(1).max(most))

/** Rejects control characters and lone surrogates. PostgreSQL cannot store or compare U+0000. */
function showable(schema: z.ZodString) {
  const message = 'must not have control characters'
  return schema.regex(SHOWABLE, message).refine(value => !SHOWABLE.test(value) || value.isWellFormed(), message)
}

const title = text(LONGEST_TITLE).describe('Name shown to people.')

const email = z
  .string()
  .max(254)
  .regex(EMAIL, 'must be an e-mail address')
  .refine(value => value.isWellFormed(), 'must not have control characters')
  .transform(value => value.toLowerCase())

/** Parses a duration, or a number of seconds. Returns milliseconds. `least` and `most` are in milliseconds, too. */
function period(least: number, most: number) {
  return z
    .union(
      [
        z
          .number()
          .nonnegative()
          // Only the API description uses these. The checks below have better messages.
          .meta({ minimum: least / 1000, maximum: most / 1000 })
          .transform(value => Math.round(value * 1000)),
        duration(0),
      ],
      {
        error: 'must be a number of seconds, or a duration such as "12 Hours"',
      },
    )
    .refine(ms => ms >= least, `must be at least ${least / 1000} seconds`)
    .refine(ms => ms <= most, `must be at most ${most / 3_600_000} Hours`)
}

const expiresIn = period(1000, 3650 * DAY_MS).describe(
  'How long the key is valid, at least a second: a number of seconds, or a duration such as `12 Hours`.',
)
const grace = period(0, 30 * DAY_MS).describe(
  'How long the old key remains valid. Default: it stops working immediately.',
)
const scopesOf = <const S extends readonly string[]>(scopes: S) =>
  z
    .array(z.enum(scopes))
    .min(1)
    .max(SCOPES.length)
    .transform(list => [...new Set(list)])

export const accountInput = z.strictObject({
  title,
  manager: z.strictObject({ email, title: title.optional() }).optional().describe('Also creates the first manager.'),
})
export type AccountInput = z.output<typeof accountInput>

export const featureInput = z.strictObject({ enabled: z.boolean() })

export const userInput = z.strictObject({
  email,
  title: title.optional(),
  role: z.enum(ROLES),
  expires_in: expiresIn.optional().describe('How long the first key is valid. Default: 7 days.'),
})
export type UserInput = z.output<typeof userInput>

export const userUpdate = z.strictObject({ role: z.enum(ROLES), title: title.optional() })
export type UserUpdate = z.output<typeof userUpdate>

export const invitationInput = z.strictObject({ expires_in: expiresIn.optional() })
export type InvitationInput = z.output<typeof invitationInput>

export const serviceAccountInput = z.strictObject({
  title: title.optional(),
  scopes: scopesOf(ENTERPRISE_SCOPES)
    .optional()
    .describe('Default: all scopes that a service account of this kind can have.'),
  expires_in: expiresIn.optional(),
})
export type ServiceAccountInput = z.output<typeof serviceAccountInput>

export const rotateInput = z.strictObject({ grace: grace.optional(), expires_in: expiresIn.optional() })
export type RotateInput = z.output<typeof rotateInput>

export const userKeyInput = z.strictObject({
  title: title.optional(),
  scopes: scopesOf(SCOPES)
    .optional()
    .describe('Limits the key to these scopes. A key never permits more than the role of its user permits.'),
  expires_in: expiresIn.optional(),
})
export type UserKeyInput = z.output<typeof userKeyInput>

/** Not a z.record, which would visit all values. */
const configInput = z
  .custom<Readonly<Record<string, unknown>>>(isMapping, 'must be a mapping: the content of a configuration file')
  .meta({ type: 'object', description: 'The content of a configuration file. The source `ingest` always exists.' })

export const pipelineInput = z.strictObject({ title: title, config: configInput })
export type PipelineInput = z.output<typeof pipelineInput>

export const pipelineUpdate = z.strictObject({ title: title.optional(), config: configInput.optional() })
export type PipelineUpdate = z.output<typeof pipelineUpdate>

export const publishInput = z.strictObject({
  revision: z
    .int()
    .min(1)
    .max(1_000_000_000)
    .optional()
    .describe('The revision to publish; an earlier one is a rollback. Default: the latest.'),
})
export type PublishInput = z.output<typeof publishInput>

export const secretInput = z.strictObject({
  value: z
    .string()
    .meta({ minLength: 1 })
    .transform(trimKey)
    .pipe(
      z
        .string()
        .min(1, 'must not be empty')
        .max(4096, 'must have at most 4096 characters')
        .regex(
          /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/,
          'must be one line of printable ASCII without spaces around it',
        ),
    )
    .describe('One line of printable ASCII. A line end after it is ignored. The value is never returned.'),
})
export type SecretInput = z.output<typeof secretInput>

const MOST_TOTALS = 64
export const reportInput = z.strictObject({
  daemon_id: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/, 'must be a name of A-Z, a-z, 0-9, ".", "_", ":" and "-"'),
  pipeline_id: z.string().regex(/^[0-9a-f]{24}$/, 'must be 24 hexadecimal digits'),
  host: text(255),
  version: text(64),
  revision: z.int().min(0).max(1_000_000_000).nullable(),
  health: z.enum(HEALTHS),
  error: text(1000).nullish(),
  // The number is checked first, because each entry that is not valid takes much longer.
  totals: z
    .preprocess(
      (totals, context) => {
        if (Object.keys(Object(totals)).length > MOST_TOTALS)
          context.addIssue(`must have at most ${MOST_TOTALS} entries`)
        return totals
      },
      z.record(z.string().regex(/^[a-z][a-z0-9_]{0,63}$/), z.number().min(0).max(Number.MAX_SAFE_INTEGER)),
    )
    .optional(),
  started_at: time.nullish(),
})
export type ReportInput = z.output<typeof reportInput>

export const pageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(100).default(50),
  after: showable(z.string().min(1).max(200)).optional().describe('`next` of the previous page.'),
})
export type PageQuery = z.output<typeof pageQuery>

export const initInput = z.object({
  enterpriseTitle: title.default('Enterprise'),
  accountTitle: title.default('Account'),
  managerEmail: email.default('manager@localhost'),
})
export type InitOptions = z.input<typeof initInput>
