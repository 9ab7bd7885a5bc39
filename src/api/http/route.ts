import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Scope } from '../domain/accounts/scopes.js'
import type { Page } from '../domain/documents.js'
import type { Principal } from '../domain/keys/principal.js'
import type { Service } from '../domain/service.js'

/** How a route is declared: what the app serves and the OpenAPI document are made from the same table. */

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** A request that is authenticated and whose parts hold. */
export interface Call<Q = unknown, B = unknown> {
  readonly service: Service
  readonly principal: Principal
  /** The parts of the path in braces. */
  readonly params: Readonly<Record<string, string>>
  readonly query: Q
  readonly body: B
  readonly request: FastifyRequest
}

/** What a handler gives back; the app puts it into the envelope. */
export interface Reply {
  /** Without it the only status that the route declares. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** One thing. */
  readonly one?: unknown
  /** A part of a list. */
  readonly page?: Page<unknown>
  /** Sent as it is, without an envelope. */
  readonly raw?: unknown
}

/** An answer that is not an error. */
export interface Answer {
  readonly description: string
  /** `meta.type` and the schema of `data`; undefined: no body. */
  readonly one?: readonly [type: string, schema: z.ZodType]
  readonly list?: readonly [type: string, schema: z.ZodType]
  /** A body without an envelope. */
  readonly raw?: z.ZodType
  readonly headers?: Readonly<Record<string, string>>
}

export interface Route<Q extends z.ZodObject = z.ZodObject, B extends z.ZodObject = z.ZodObject> {
  readonly method: Method
  /** As in OpenAPI: `/v3/pipeline/{id}`. */
  readonly path: string
  /** Unique, for generated clients. */
  readonly operation: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  /** What the key needs; undefined: any key will do. */
  readonly scope?: Scope
  readonly query?: Q
  readonly body?: B
  /** Whether the body may be left out. */
  readonly bodyOptional?: true
  /** The request has a body that the handler reads itself; the media types it may have. */
  readonly stream?: readonly string[]
  /** Request headers, by name. */
  readonly headers?: Readonly<Record<string, string>>
  readonly answers: Readonly<Record<number, Answer>>
  /** What it refuses beside what every route does: the status, and the codes with their meaning. */
  readonly refusals?: Readonly<Record<number, Readonly<Record<string, string>>>>
  handle(call: Call<z.output<Q>, z.output<B>>): Promise<Reply>
}

/** Declares a route: `handle` sees the types of its schemas, the table forgets them. */
export const route = <Q extends z.ZodObject, B extends z.ZodObject>(declared: Route<Q, B>): Route =>
  declared as unknown as Route

/** The names in braces. */
export function paramsOf(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
}

const pageMeta = z.object({
  limit: z.int().describe('The most entries of a page.'),
  next: z.string().nullable().describe('The `after` of the next page; null at the end.'),
})

/** The schema of the body of an answer; undefined: no body. */
export function bodyOf({ one, list, raw }: Answer): z.ZodType | undefined {
  if (one) return z.object({ meta: z.object({ type: z.literal(one[0]) }), data: one[1] })
  if (list) return z.object({ meta: z.object({ type: z.literal(list[0]), page: pageMeta }), data: z.array(list[1]) })
  return raw
}

/** The envelope of every refusal. */
export const errorDocument = z
  .object({
    code: z.string().describe('Stable, in snake case: programs decide by it.'),
    message: z.string().describe('For people: what is wrong, and what to do.'),
    errors: z
      .array(z.object({ path: z.string().describe('As in `config.processors.limit.window`.'), message: z.string() }))
      .describe('Everything that is wrong with what was sent, with its place.'),
  })
  .meta({ id: 'Error' })
