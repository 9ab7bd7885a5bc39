import { z } from 'zod'
import { auditDocument, daemonDocument } from '../../../../daemon/client/documents.js'
import { pageQuery, reportInput } from '../../../../daemon/client/inputs.js'
import { requireAuditRead, requireReporter } from '../../domain/accounts/access.js'
import { DEFAULT_LIMITS } from '../../domain/context.js'
import { ApiError } from '../../domain/errors.js'
import type { Ingest } from '../ingest.js'
import { type ApiRoute, apiRoute } from '../route.js'
import { NOT_ENABLED } from './pipeline.js'

const TAKEN = ['application/x-ndjson', 'application/json', 'text/plain'] as const

export const operationRoutes: readonly ApiRoute[] = [
  apiRoute({
    method: 'GET',
    path: '/v3/fleet',
    operation: 'listDaemons',
    tag: 'fleet',
    summary: 'Lists the managed daemons, the revision that each runs, and whether it is behind.',
    scope: 'pipeline:read',
    query: pageQuery,
    answers: { 200: { description: 'A page of daemons.', list: ['daemon', daemonDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.fleet.list(principal, query) }),
  }),
  apiRoute({
    method: 'POST',
    path: '/v3/fleet/report',
    operation: 'reportDaemon',
    tag: 'fleet',
    summary: 'Reports the revision, the state and the totals of a daemon.',
    scope: 'pipeline:read',
    access: requireReporter,
    body: reportInput,
    answers: { 200: { description: 'The daemon as the service now knows it.', one: ['daemon', daemonDocument] } },
    refusals: {
      403: { role_missing: 'Viewers cannot report.' },
      404: { not_found: 'The pipeline does not exist.' },
      409: {
        limit_reached: `The account has reached the limit of ${DEFAULT_LIMITS.daemons} daemons, and all of them are reporting.`,
      },
      429: { too_many_daemons: 'Too many new daemons at the same time.' },
    },
    handle: async ({ service, principal, body }) => ({ one: await service.fleet.report(principal, body) }),
  }),
  apiRoute({
    method: 'GET',
    path: '/v3/audit',
    operation: 'listAudit',
    tag: 'audit',
    summary: 'Lists all administrative actions, newest first.',
    scope: 'account:manage',
    access: requireAuditRead,
    query: pageQuery,
    answers: { 200: { description: 'A page of the audit log.', list: ['audit_entry', auditDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.audit.list(principal, query) }),
  }),
]

/** The route that accepts events. It responds with 503 if `ingest` is undefined. */
export function ingestRoute(ingest: Ingest | undefined): ApiRoute {
  return apiRoute({
    method: 'POST',
    path: '/v3/ingest/{id}',
    operation: 'ingest',
    tag: 'ingest',
    summary: 'Sends events through a published pipeline.',
    description:
      'The body is NDJSON, a JSON array of objects, or lines of text, optionally compressed with gzip. 202 means that the events are safe. A batch that is sent again with the same idempotency-key is processed once.',
    scope: 'ingest:write',
    headers: {
      'idempotency-key': 'Identifies a batch. Every attempt to send the batch uses the same value.',
      'content-encoding': '`gzip`; absent if the body is not compressed.',
    },
    stream: TAKEN,
    answers: { 202: { description: 'The events are safe.', raw: z.unknown() } },
    refusals: {
      403: NOT_ENABLED,
      503: {
        unavailable: 'The events cannot be accepted now. Send them again after the time in Retry-After.',
        not_published: 'No revision has been published yet. Send the events again after the time in Retry-After.',
      },
    },
    handle: async ({ principal, params, request, confirm }) => {
      if (!ingest)
        throw new ApiError(503, 'unavailable', 'this service does not accept events', { headers: LATER_SOON })
      return { raw: await ingest.ingest(principal, params.id!, request.raw, confirm) }
    },
  })
}

const LATER_SOON = { 'retry-after': '30' }
