import {
  pipelineDocument,
  publishedDocument,
  publishedPipelineDocument,
  revisionDocument,
} from '../../../../daemon/client/documents.js'
import { pageQuery, pipelineInput, pipelineUpdate, publishInput } from '../../../../daemon/client/inputs.js'
import { requirePipelineRead, requirePipelineWrite } from '../../domain/accounts/access.js'
import { DEFAULT_LIMITS } from '../../domain/context.js'
import { notFound } from '../../domain/errors.js'
import type { Tagged } from '../../domain/pipelines/pipelines.js'
import { type ApiCall, type ApiRoute, apiRoute, type Handled } from '../route.js'

const ETAG = { etag: 'Identifies the version in the response, for If-Match and If-None-Match.' }
const IF_MATCH = { 'if-match': 'The change is made only if the pipeline still has this ETag.' }
const CHANGED = { 412: { precondition_failed: 'The pipeline has changed since you read it; read it again.' } }
export const NOT_ENABLED = {
  feature_not_enabled: 'The pipeline contains a throttle, and this feature is not enabled for the account.',
}
const FULL = {
  account_disk_full: 'The pipelines of the account and their saved revisions use all of its disk space.',
}

const ifMatch = ({ request }: ApiCall): string | undefined => request.headers['if-match']

function tagged({ document, etag }: Tagged<unknown>): Handled {
  return { one: document, headers: { etag } }
}

/** Responds with 304 without a body if the client already has this version. */
function unlessKnown({ request }: ApiCall, thing: Tagged<unknown>): Handled {
  const known = request.headers['if-none-match']?.split(',').map(tag => tag.trim().replace(/^W\//, '')) ?? []
  const same = known.includes(thing.etag) || known.includes('*')
  return same ? { status: 304, headers: { etag: thing.etag } } : { status: 200, ...tagged(thing) }
}

export const pipelineRoutes: readonly ApiRoute[] = [
  apiRoute({
    method: 'GET',
    path: '/v3/pipeline',
    operation: 'listPipelines',
    tag: 'pipeline',
    summary: 'Lists the pipelines of the account. HEAD also serves to validate a token.',
    description: 'At enterprise scope, lists the pipelines of all accounts.',
    scope: 'pipeline:read',
    query: pageQuery,
    answers: { 200: { description: 'A page of pipelines.', list: ['pipeline', pipelineDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.pipelines.list(principal, query) }),
  }),
  apiRoute({
    method: 'POST',
    path: '/v3/pipeline',
    operation: 'createPipeline',
    tag: 'pipeline',
    summary: 'Creates a pipeline as a draft.',
    description:
      'The configuration is validated as the daemon validates its own. `errors` lists the first 50 errors with their paths.',
    scope: 'pipeline:write',
    access: requirePipelineWrite,
    body: pipelineInput,
    answers: { 201: { description: 'The pipeline.', one: ['pipeline', pipelineDocument], headers: ETAG } },
    refusals: {
      409: {
        limit_reached: `The account has reached the limit of ${DEFAULT_LIMITS.pipelines} pipelines.`,
        ...FULL,
      },
    },
    handle: async ({ service, principal, body }) => tagged(await service.pipelines.create(principal, body)),
  }),
  apiRoute({
    method: 'GET',
    path: '/v3/pipeline/{id}',
    operation: 'getPipeline',
    tag: 'pipeline',
    summary: 'Returns a pipeline with its draft.',
    scope: 'pipeline:read',
    headers: { 'if-none-match': 'The ETag that the client has from an earlier response.' },
    answers: {
      200: { description: 'The pipeline.', one: ['pipeline', pipelineDocument], headers: ETAG },
      304: { description: 'The ETag is unchanged: the client has the current version.', headers: ETAG },
    },
    handle: async call => unlessKnown(call, await call.service.pipelines.get(call.principal, call.params.id!)),
  }),
  apiRoute({
    method: 'PUT',
    path: '/v3/pipeline/{id}',
    operation: 'updatePipeline',
    tag: 'pipeline',
    summary: 'Changes the title or the draft. A changed draft is a new revision.',
    scope: 'pipeline:write',
    access: requirePipelineWrite,
    headers: IF_MATCH,
    body: pipelineUpdate,
    answers: { 200: { description: 'The updated pipeline.', one: ['pipeline', pipelineDocument], headers: ETAG } },
    refusals: { 409: FULL, ...CHANGED },
    handle: async call =>
      tagged(await call.service.pipelines.update(call.principal, call.params.id!, call.body, ifMatch(call))),
  }),
  apiRoute({
    method: 'DELETE',
    path: '/v3/pipeline/{id}',
    operation: 'deletePipeline',
    tag: 'pipeline',
    summary: 'Deletes a pipeline and its revisions.',
    scope: 'pipeline:write',
    headers: IF_MATCH,
    answers: { 204: { description: 'It was deleted.' } },
    refusals: CHANGED,
    handle: call => call.service.pipelines.remove(call.principal, call.params.id!, ifMatch(call)),
  }),
  apiRoute({
    method: 'POST',
    path: '/v3/pipeline/{id}/publish',
    operation: 'publishPipeline',
    tag: 'pipeline',
    summary: 'Publishes the latest revision, or rolls back to an earlier one.',
    scope: 'pipeline:write',
    access: requirePipelineWrite,
    headers: IF_MATCH,
    body: publishInput,
    bodyOptional: true,
    answers: {
      200: { description: 'The updated pipeline.', one: ['pipeline', publishedPipelineDocument], headers: ETAG },
    },
    refusals: {
      403: NOT_ENABLED,
      ...CHANGED,
    },
    handle: async call =>
      tagged(await call.service.pipelines.publish(call.principal, call.params.id!, call.body, ifMatch(call))),
  }),
  apiRoute({
    method: 'GET',
    path: '/v3/pipeline/{id}/published',
    operation: 'getPublishedPipeline',
    tag: 'pipeline',
    summary: 'Returns the published revision, which daemons run.',
    scope: 'pipeline:read',
    headers: { 'if-none-match': 'The ETag that the client has from an earlier response.' },
    answers: {
      200: { description: 'The published revision.', one: ['published_pipeline', publishedDocument], headers: ETAG },
      304: { description: 'The ETag is unchanged: the client has the current version.', headers: ETAG },
    },
    refusals: { 403: NOT_ENABLED, 409: { not_published: 'No revision has been published.' } },
    handle: async call => unlessKnown(call, await call.service.pipelines.published(call.principal, call.params.id!)),
  }),
  apiRoute({
    method: 'GET',
    path: '/v3/pipeline/{id}/revision',
    operation: 'listRevisions',
    tag: 'pipeline',
    summary: 'Lists the revisions of a pipeline, newest first.',
    scope: 'pipeline:read',
    access: requirePipelineRead,
    query: pageQuery,
    answers: { 200: { description: 'A page of revisions.', list: ['revision', revisionDocument] } },
    handle: async ({ service, principal, params, query }) => ({
      page: await service.pipelines.revisions(principal, params.id!, query),
    }),
  }),
  apiRoute({
    method: 'GET',
    path: '/v3/pipeline/{id}/revision/{revision}',
    operation: 'getRevision',
    tag: 'pipeline',
    summary: 'Returns a revision of a pipeline.',
    scope: 'pipeline:read',
    answers: { 200: { description: 'The revision.', one: ['revision', revisionDocument] } },
    handle: async ({ service, principal, params }) => {
      if (!/^[1-9]\d{0,8}$/.test(params.revision!)) throw notFound('revision')
      return { one: await service.pipelines.revision(principal, params.id!, Number(params.revision)) }
    },
  }),
]
