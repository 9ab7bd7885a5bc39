import { z } from 'zod'
import type { Ingest } from './ingest.js'
import { openApi } from './openapi.js'
import { type ApiRoute, apiRoute } from './route.js'
import { accountRoutes } from './routes/account.js'
import { ingestRoute, operationRoutes } from './routes/operation.js'
import { peopleRoutes } from './routes/people.js'
import { pipelineRoutes } from './routes/pipeline.js'
import { secretRoutes } from './routes/secret.js'

export function allRoutes(ingest: Ingest | undefined): readonly ApiRoute[] {
  let text: unknown
  const description = apiRoute({
    method: 'GET',
    path: '/v3/openapi.json',
    operation: 'getDescription',
    tag: 'description',
    summary: 'Returns this OpenAPI document.',
    answers: { 200: { description: 'The OpenAPI document.', raw: z.record(z.string(), z.unknown()) } },
    handle: async () => ({ raw: (text ??= openApi(routes)) }),
  })
  const routes: readonly ApiRoute[] = [
    ...accountRoutes,
    ...pipelineRoutes,
    ...secretRoutes,
    ingestRoute(ingest),
    ...peopleRoutes,
    ...operationRoutes,
    description,
  ]
  return routes
}
