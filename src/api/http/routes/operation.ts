import { z } from 'zod'
import { DEFAULT_LIMITS } from '../../domain/context.js'
import { auditDocument, daemonDocument } from '../../domain/documents.js'
import { ApiError } from '../../domain/errors.js'
import { pageQuery, reportInput } from '../../domain/inputs.js'
import type { Ingest } from '../ingest.js'
import { type Route, route } from '../route.js'

const TAKEN = ['application/x-ndjson', 'application/json', 'text/plain'] as const

/** Routes of daemons and the audit log. */
export const operationRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v3/fleet',
    operation: 'listDaemons',
    tag: 'fleet',
    summary: 'Daemons under management: who runs what, and who is behind.',
    scope: 'pipeline:read',
    query: pageQuery,
    answers: { 200: { description: 'A page of daemons.', list: ['daemon', daemonDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.fleet.list(principal, query) }),
  }),
  route({
    method: 'POST',
    path: '/v3/fleet/report',
    operation: 'reportDaemon',
    tag: 'fleet',
    summary: 'A daemon reports what it runs, its state, and its totals.',
    scope: 'pipeline:read',
    body: reportInput,
    answers: { 200: { description: 'What is known of it now.', one: ['daemon', daemonDocument] } },
    refusals: {
      403: { role_missing: 'Viewers cannot report.' },
      404: { not_found: 'There is no such pipeline.' },
      409: {
        limit_reached: `The account has ${DEFAULT_LIMITS.daemons} daemons, the most that are possible, and all of them report.`,
      },
      429: { too_many_daemons: 'Too many new daemons at a time.' },
    },
    handle: async ({ service, principal, body }) => ({ one: await service.fleet.report(principal, body) }),
  }),
  route({
    method: 'GET',
    path: '/v3/audit',
    operation: 'listAudit',
    tag: 'audit',
    summary: 'Every administrative act, the newest first.',
    scope: 'account:manage',
    query: pageQuery,
    answers: { 200: { description: 'A page of the log.', list: ['audit_entry', auditDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.audit.list(principal, query) }),
  }),
]

/** The route that accepts events; `ingest` undefined: this process accepts none. */
export function ingestRoute(ingest: Ingest | undefined): Route {
  return route({
    method: 'POST',
    path: '/v3/ingest/{id}',
    operation: 'ingest',
    tag: 'ingest',
    summary: 'Sends events through a published pipeline.',
    description:
      'NDJSON, a JSON array of objects, or lines of text; gzip. 202 means that the events are safe. A batch that is sent again with the same idempotency-key counts once.',
    scope: 'ingest:write',
    headers: {
      'idempotency-key': 'Of a batch; the same for each try of it.',
      'content-encoding': 'gzip, or none.',
    },
    stream: TAKEN,
    answers: { 202: { description: 'The events are safe.', raw: z.unknown() } },
    refusals: {
      503: {
        unavailable: 'The events cannot be taken now; send them again after Retry-After.',
        not_published: 'No revision is published yet; the same.',
      },
    },
    handle: async ({ principal, params, request }) => {
      if (!ingest) throw new ApiError(503, 'unavailable', 'this service takes no events', { headers: LATER_SOON })
      const { status, headers, body } = await ingest.ingest(principal, params.id!, request.raw)
      return { status, ...(headers ? { headers } : {}), ...(body === undefined ? {} : { raw: body }) }
    },
  })
}

const LATER_SOON = { 'retry-after': '30' }
