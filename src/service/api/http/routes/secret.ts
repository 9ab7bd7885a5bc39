import { secretDocument } from '../../../../daemon/client/documents.js'
import { pageQuery, secretInput } from '../../../../daemon/client/inputs.js'
import { requirePipelineRead, requirePipelineWrite } from '../../domain/accounts/access.js'
import { DEFAULT_LIMITS } from '../../domain/context.js'
import { type ApiRoute, apiRoute } from '../route.js'

export const secretRoutes: readonly ApiRoute[] = [
  apiRoute({
    method: 'GET',
    path: '/v3/secret',
    operation: 'listSecrets',
    tag: 'secret',
    summary: 'Lists the names of the secrets of the account.',
    description: 'Values are never returned.',
    scope: 'pipeline:read',
    access: requirePipelineRead,
    query: pageQuery,
    answers: { 200: { description: 'A page of secrets.', list: ['secret', secretDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.secrets.list(principal, query) }),
  }),
  apiRoute({
    method: 'PUT',
    path: '/v3/secret/{name}',
    operation: 'setSecret',
    tag: 'secret',
    summary: 'Creates a secret or replaces its value.',
    description:
      'Pipelines refer to it as `${secret:NAME}` in options for keys and passwords such as `auth.key`, in `headers` and in the query of URLs. Pipelines that run in the service use a new value immediately.',
    scope: 'pipeline:write',
    access: requirePipelineWrite,
    body: secretInput,
    answers: { 200: { description: 'The secret, without its value.', one: ['secret', secretDocument] } },
    refusals: {
      409: { limit_reached: `The account has reached the limit of ${DEFAULT_LIMITS.secrets} secrets.` },
    },
    handle: async ({ service, principal, params, body }) => ({
      one: await service.secrets.set(principal, params.name!, body),
    }),
  }),
  apiRoute({
    method: 'DELETE',
    path: '/v3/secret/{name}',
    operation: 'deleteSecret',
    tag: 'secret',
    summary: 'Deletes a secret.',
    description:
      'Pipelines that refer to it stop in the service immediately. They list it in `missing_secrets`, and ingest answers 503 until it is saved again.',
    scope: 'pipeline:write',
    answers: { 204: { description: 'It was deleted.' } },
    handle: ({ service, principal, params }) => service.secrets.remove(principal, params.name!),
  }),
]
