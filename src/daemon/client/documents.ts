import { z } from 'zod'
import { ROLES, SCOPES } from './scopes.js'

/** Schemas of response documents, with the names of the API. Only values that are shown once are optional. */

export const id = z
  .string()
  .regex(/^[0-9a-f]{24}$/)
  .describe('24 hexadecimal digits.')
export const time = z.iso.datetime().describe('ISO 8601, in UTC.')
const scopes = z.array(z.enum(SCOPES)).describe('Scopes that the key grants.')
const freshKey = z.string().describe('The access key. It is returned only once.')
const config = z.record(z.string(), z.unknown())

export const accountDocument = z
  .object({
    id,
    short_id: z.string().length(9).describe('Short identifier of the account, 9 characters.'),
    title: z.string(),
    enterprise_id: id,
    features: z.object({
      throttle: z.boolean().describe('Beta: pipelines with a throttle may be published and used.'),
    }),
    created_at: time,
  })
  .meta({ id: 'Account' })
export type AccountDocument = z.output<typeof accountDocument>

const pipelineName = z.object({ id, title: z.string() })
export type PipelineName = z.output<typeof pipelineName>

export const featureDocument = z
  .object({
    name: z.string(),
    enabled: z.boolean(),
    pipelines: z.array(pipelineName).describe('The published pipelines that use the feature.'),
  })
  .meta({ id: 'Feature' })
export type FeatureDocument = z.output<typeof featureDocument>

export const changedFeatureDocument = accountDocument
  .extend({
    stopped_pipelines: z
      .array(pipelineName)
      .describe('The published pipelines that accept no events while the feature is disabled.'),
  })
  .meta({ id: 'ChangedFeature' })
export type ChangedFeatureDocument = z.output<typeof changedFeatureDocument>

export const userDocument = z
  .object({ id, email: z.string(), title: z.string(), role: z.enum(ROLES), account_id: id, created_at: time })
  .meta({ id: 'User' })
export type UserDocument = z.output<typeof userDocument>

/** A user with a first key. The caller passes the key to that person. */
export const invitedUserDocument = userDocument
  .extend({ key: freshKey, key_id: id, expires_at: time.nullable() })
  .meta({ id: 'InvitedUser' })
export type InvitedUserDocument = z.output<typeof invitedUserDocument>

export const createdAccountDocument = accountDocument
  .extend({ manager: invitedUserDocument.optional().describe('The first manager, if one was requested.') })
  .meta({ id: 'CreatedAccount' })
export type CreatedAccountDocument = z.output<typeof createdAccountDocument>

export const keyDocument = z
  .object({
    id,
    created_at: time,
    expires_at: time.nullable(),
    last_used_at: time.nullable().describe('Updated at most once a minute.'),
  })
  .meta({ id: 'Key' })
export type KeyDocument = z.output<typeof keyDocument>

export const serviceAccountDocument = z
  .object({
    id,
    title: z.string(),
    email: z.string().describe('An address derived from the identifier; it cannot receive mail.'),
    account_id: id.nullable().describe('null if the service account belongs to the enterprise.'),
    enterprise_id: id,
    scopes,
    created_at: time,
    access_key: keyDocument.nullable().describe('The only key of the service account; null after the key was revoked.'),
  })
  .meta({ id: 'ServiceAccount' })
export type ServiceAccountDocument = z.output<typeof serviceAccountDocument>

export const keyedServiceAccountDocument = serviceAccountDocument
  .extend({
    key: freshKey,
    old_key_valid_until: time.nullable().describe('When the old key stops working; null if no old key works.'),
  })
  .meta({ id: 'KeyedServiceAccount' })
export type KeyedServiceAccountDocument = z.output<typeof keyedServiceAccountDocument>

export const userKeyDocument = keyDocument
  .extend({
    title: z.string(),
    scopes: scopes.nullable().describe('null if the key has all scopes of the role of the user.'),
  })
  .meta({ id: 'UserKey' })
export type UserKeyDocument = z.output<typeof userKeyDocument>

export const createdUserKeyDocument = userKeyDocument.extend({ key: freshKey }).meta({ id: 'CreatedUserKey' })
export type CreatedUserKeyDocument = z.output<typeof createdUserKeyDocument>

export const tokenDocument = z
  .object({
    type: z.enum(['service_account', 'enterprise_service_account', 'personal']),
    subject: z.object({ id, email: z.string(), title: z.string() }),
    account_id: id.nullable(),
    account_short_id: z.string().length(9).nullable(),
    enterprise_id: id,
    role: z.enum(ROLES).nullable(),
    scopes,
    expires_at: time.nullable(),
    key_id: id,
    delegated: z.boolean(),
  })
  .meta({ id: 'Token' })
export type TokenDocument = z.output<typeof tokenDocument>

export const pipelineDocument = z
  .object({
    id,
    account_id: id,
    title: z.string(),
    config: config.describe('The draft, as the content of a configuration file. The source `ingest` always exists.'),
    revision: z.int().describe('Revision of the draft.'),
    published_revision: z.int().nullable().describe('null if no revision has been published.'),
    missing_secrets: z
      .array(z.string())
      .describe('Secrets that the draft or the published revision refers to, but that do not exist.'),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'Pipeline' })
export type PipelineDocument = z.output<typeof pipelineDocument>

/** The response to publishing: the pipeline, and the limits that apply if the service runs it. */
export const publishedPipelineDocument = pipelineDocument
  .extend({
    service_bounds: z
      .array(
        z.object({
          path: z.string().describe('Path of the option; empty for the whole configuration.'),
          message: z.string(),
          obstacle: z
            .literal(true)
            .optional()
            .describe(
              'Present if this prevents the service from accepting events for the pipeline. A daemon may still be able to run it.',
            ),
        }),
      )
      .describe(
        'Limits that apply when the service runs the pipeline, or the reason why the service cannot run it. The limits do not apply in daemons.',
      ),
  })
  .meta({ id: 'PipelineJustPublished' })
export type PublishedPipelineDocument = z.output<typeof publishedPipelineDocument>

export const revisionDocument = z
  .object({
    pipeline_id: id,
    revision: z.int(),
    config,
    created_at: time,
    created_by: z.object({ id, email: z.string() }),
    published: z.boolean().describe('Whether this is the published revision.'),
  })
  .meta({ id: 'Revision' })
export type RevisionDocument = z.output<typeof revisionDocument>

export const secretDocument = z
  .object({
    name: z.string(),
    created_at: time,
    updated_at: time.describe('When the value was last saved.'),
    updated_by: z.object({ id, email: z.string() }),
  })
  .meta({ id: 'Secret' })
export type SecretDocument = z.output<typeof secretDocument>

export const publishedDocument = z
  .object({ id, account_id: id, title: z.string(), revision: z.int(), config, published_at: time })
  .meta({ id: 'PublishedPipeline' })
export type PublishedDocument = z.output<typeof publishedDocument>

export const HEALTHS = ['ready', 'holding', 'starting', 'failed'] as const

export const daemonDocument = z
  .object({
    id: z.string().describe('Name that the daemon chose; unique within its pipeline.'),
    pipeline_id: id,
    host: z.string(),
    version: z.string(),
    revision: z.int().nullable().describe('The revision that the daemon runs.'),
    published_revision: z.int().nullable(),
    behind: z.boolean().describe('Whether the daemon runs a revision other than the published one.'),
    health: z.enum(HEALTHS),
    error: z.string().nullable().describe('Why the daemon does not run the published revision, or cannot deliver.'),
    totals: z.record(z.string(), z.number()).describe('Event counts since the daemon started.'),
    started_at: time.nullable(),
    reported_at: time,
    silent: z.boolean().describe('Whether reports from the daemon are overdue.'),
  })
  .meta({ id: 'Daemon' })
export type DaemonDocument = z.output<typeof daemonDocument>

export const auditDocument = z
  .object({
    id,
    at: time,
    action: z.string().describe('The action, for example `pipeline.publish`.'),
    actor: z.object({ type: z.string(), id: z.string(), email: z.string(), key_id: z.string().nullable() }),
    enterprise_id: id,
    account_id: id.nullable(),
    target: z.object({ type: z.string(), id: z.string() }),
    details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
    address: z.string().nullable(),
    request_id: z.string().nullable(),
  })
  .meta({ id: 'AuditEntry' })
export type AuditDocument = z.output<typeof auditDocument>

/** A page of a list. `next`: the value of `after` for the following page; null on the last page. */
export interface PageDocument<T> {
  readonly items: readonly T[]
  readonly next: string | null
  readonly limit: number
}

/** Output of `sluice admin init --json`. */
export interface InitResult {
  readonly enterprise: { readonly id: string }
  readonly account: { readonly id: string; readonly short_id: string }
  readonly manager: { readonly id: string; readonly email: string; readonly key: string }
  readonly service_account: { readonly id: string; readonly key: string }
  readonly enterprise_service_account: { readonly id: string; readonly key: string }
}
