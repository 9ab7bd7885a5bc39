import { z } from 'zod'
import { SCOPE_MEANINGS } from '../../../daemon/client/scopes.js'
import { packageVersion } from '../../../lib/version.js'
import { type ApiRoute, bodyOf, errorDocument, paramsOf, type Success } from './route.js'

/** Generates the OpenAPI 3.1 document from the routes. */

type Json = Record<string, unknown>

/** Errors of all routes for which `when` holds. The contract test triggers each of them. */
const COMMON: readonly { status: number; text: string; when: (route: ApiRoute) => boolean }[] = [
  { status: 400, text: 'The request is not valid; `errors` lists the first 50 errors.', when: takesInput },
  { status: 401, text: 'The token is missing, malformed, unknown, expired or revoked.', when: () => true },
  {
    status: 403,
    text: 'The token does not permit this, or must not be used with x-delegate-account-id.',
    when: () => true,
  },
  {
    status: 404,
    text: 'The resource does not exist, or this token has no access to it.',
    when: ({ path }) => path.includes('{'),
  },
  { status: 413, text: 'The body is too large.', when: ({ body, stream }) => Boolean(body ?? stream) },
  {
    status: 415,
    text: 'The media type of the body is not supported.',
    when: ({ body, stream }) => Boolean(body ?? stream),
  },
  { status: 429, text: 'Too many requests. Wait for the time in Retry-After.', when: () => true },
  { status: 503, text: 'The service cannot do this now. Wait for the time in Retry-After.', when: () => true },
]

function takesInput({ body, query, stream }: ApiRoute): boolean {
  return Boolean(body ?? query ?? stream)
}

export function refusalsOf(route: ApiRoute): Map<number, string> {
  const found = new Map<number, string>()
  for (const { status, text, when } of COMMON) if (when(route)) found.set(status, text)
  for (const [status, codes] of Object.entries(route.refusals ?? {})) {
    const own = Object.entries(codes).map(([code, meaning]) => `\`${code}\`: ${meaning}`)
    const common = found.get(Number(status))
    found.set(Number(status), [...(common ? [common] : []), ...own].join(' '))
  }
  return new Map([...found].sort(([a], [b]) => a - b))
}

const AUTH_HEADERS: Readonly<Record<string, string>> = {
  'x-auth-subject-id': 'Identifier of the subject, 24 hexadecimal digits.',
  'x-auth-account-id': 'Identifier of the account; absent at enterprise scope.',
  'x-auth-enterprise-id': 'Identifier of the enterprise.',
  'x-auth-subject-email': 'E-mail address of the subject. Characters beyond ASCII and "%" are percent-encoded (UTF-8).',
  'x-auth-account-short-id': 'Short identifier of the account, 9 characters; absent at enterprise scope.',
  'x-auth-access-type': 'Always `access`.',
  'ratelimit-limit': 'Number of requests that a key may send in a window.',
  'ratelimit-remaining': 'Number of requests left in the current window.',
  'ratelimit-reset': 'Seconds until the key may send the full number of requests again.',
}

/** Collects named schemas, which appear once in the document. */
class Schemas {
  readonly named: Json = {}

  /** Converts a schema to JSON Schema 2020-12. Schemas with an id become references. */
  of(schema: z.ZodType, io: 'input' | 'output'): Json {
    const { $schema, $defs, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json
    for (const [name, named] of Object.entries(($defs ?? {}) as Json)) this.named[name] ??= this.#relink(named)
    return this.#relink(rest) as Json
  }

  #relink(node: unknown): unknown {
    if (Array.isArray(node)) return node.map(item => this.#relink(item))
    if (typeof node !== 'object' || node === null) return node
    const copy: Json = {}
    for (const [key, value] of Object.entries(node)) {
      // Leaves out limits of safe integers, as they say nothing. Leaves out ids of zod: they are names, not URIs.
      if ((node as Json).type === 'integer' && Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER) continue
      if (key === 'id' && typeof value === 'string' && Object.hasOwn(node, 'type')) continue
      copy[key] = key === '$ref' ? String(value).replace('#/$defs/', '#/components/schemas/') : this.#relink(value)
    }
    return copy
  }
}

/** Creates the OpenAPI document. The same routes always give the same text. */
export function openApi(routes: readonly ApiRoute[]): Json {
  const schemas = new Schemas()
  const paths: Record<string, Json> = {}
  const failure = schemas.of(z.object({ error: errorDocument }), 'output')
  const errorSchema = (failure.properties as Json).error
  for (const route of routes) {
    paths[route.path] ??= {}
    paths[route.path]![route.method.toLowerCase()] = operationOf(route, schemas, errorSchema)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version: packageVersion(),
      description: [
        'API for accounts, keys, pipelines and ingest. Every request must contain `Authorization: Token <ACCESS_KEY>`.',
        'HEAD is supported wherever GET is. Every response has an `x-request-id` header; every authenticated response also has the `x-auth-*` headers.',
        'The response is 404 if a resource in the path does not exist or belongs to another account. It is 405 if the path does not support the method.',
        'If two requests change the same resource at the same time, one of them is refused with 409 `conflict`. Read the resource and try again.',
      ].join('\n\n'),
    },
    security: [{ token: [] }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map(name => ({ name })),
    paths,
    components: {
      securitySchemes: {
        token: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: `\`Token <ACCESS_KEY>\`. ${Object.entries(SCOPE_MEANINGS)
            .map(([scope, meaning]) => `\`${scope}\`: ${meaning}`)
            .join(' ')}`,
        },
      },
      headers: Object.fromEntries(
        Object.entries({ 'x-request-id': 'UUID of the request.', ...AUTH_HEADERS }).map(([name, description]) => [
          name,
          { description, schema: { type: 'string' } },
        ]),
      ),
      schemas: schemas.named,
    },
  }
}

function operationOf(route: ApiRoute, schemas: Schemas, errorSchema: unknown): Json {
  const { body, bodyOptional, stream } = route
  const about = [
    ...(route.description ? [route.description] : []),
    route.scope ? `Requires the scope \`${route.scope}\`.` : 'Any valid key is accepted.',
  ]
  const responses: Json = {}
  for (const [status, answer] of Object.entries(route.answers)) responses[status] = responseOf(answer, schemas)
  for (const [status, description] of refusalsOf(route)) {
    responses[status] = {
      description,
      headers: headerRefs(['x-request-id']),
      content: { 'application/json': { schema: errorSchema } },
    }
  }
  const content = stream
    ? Object.fromEntries(stream.map(type => [type, { schema: {} }]))
    : body && { 'application/json': { schema: schemas.of(body, 'input') } }
  return {
    operationId: route.operation,
    tags: [route.tag],
    summary: route.summary,
    description: about.join(' '),
    ...(route.scope ? { 'x-scope': route.scope } : {}),
    parameters: parametersOf(route, schemas),
    ...(content ? { requestBody: { required: !bodyOptional, content } } : {}),
    responses,
  }
}

function parametersOf(route: ApiRoute, schemas: Schemas): Json[] {
  const query = route.query ? schemas.of(route.query, 'output') : {}
  const { properties = {}, required = [] } = query as { properties?: Record<string, Json>; required?: string[] }
  return [
    ...paramsOf(route.path).map(name => ({ name, in: 'path', required: true, schema: { type: 'string' } })),
    ...Object.entries(properties).map(([name, schema]) => ({
      name,
      in: 'query',
      required: required.includes(name) && !('default' in schema),
      schema,
    })),
    ...Object.entries(route.headers ?? {}).map(([name, description]) => ({
      name,
      in: 'header',
      description,
      schema: { type: 'string' },
    })),
    {
      name: 'x-delegate-account-id',
      in: 'header',
      description: 'The account in which to act. Only for keys of enterprise service accounts.',
      schema: { type: 'string' },
    },
  ]
}

function responseOf(answer: Success, schemas: Schemas): Json {
  const body = bodyOf(answer)
  const own = Object.entries(answer.headers ?? {}).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ])
  return {
    description: answer.description,
    headers: { ...headerRefs(['x-request-id', ...Object.keys(AUTH_HEADERS)]), ...Object.fromEntries(own) },
    ...(body ? { content: { 'application/json': { schema: schemas.of(body, 'output') } } } : {}),
  }
}

function headerRefs(names: readonly string[]): Json {
  return Object.fromEntries(names.map(name => [name, { $ref: `#/components/headers/${name}` }]))
}
