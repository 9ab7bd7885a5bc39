import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { PageDocument } from '../../../daemon/client/documents.js'
import type { Scope } from '../../../daemon/client/scopes.js'
import type { Principal } from '../domain/keys/principal.js'
import type { Service } from '../domain/service.js'
import type { Confirm } from './ingest.js'

/** Declares routes in a table. The app and the OpenAPI document are both made from this table. */

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** An authenticated request whose parts are valid. */
export interface ApiCall<Q = unknown, B = unknown> {
  readonly service: Service
  readonly principal: Principal
  readonly params: Readonly<Record<string, string>>
  readonly query: Q
  readonly body: B
  readonly request: FastifyRequest
  readonly confirm: Confirm
}

/** The result of a handler, without the envelope. */
export interface Handled {
  /** Default: the lowest status that the route declares. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly one?: unknown
  readonly page?: PageDocument<unknown>
  /** Sent without an envelope. */
  readonly raw?: unknown
}

/** A success response; without `one`, `list` and `raw`, it does not have a body. */
export interface Success {
  readonly description: string
  /** The type in `meta`, and the schema of `data`. */
  readonly one?: readonly [type: string, schema: z.ZodType]
  readonly list?: readonly [type: string, schema: z.ZodType]
  /** A body without an envelope. */
  readonly raw?: z.ZodType
  readonly headers?: Readonly<Record<string, string>>
}

export interface ApiRoute<Q extends z.ZodObject = z.ZodObject, B extends z.ZodObject = z.ZodObject> {
  readonly method: Method
  /** As in OpenAPI: `/v3/pipeline/{id}`. */
  readonly path: string
  /** Unique; generated clients use it as a name. */
  readonly operation: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  /** The scope that the key needs; undefined if any valid key suffices. */
  readonly scope?: Scope
  /**
   * Throws if the caller must not use the route. Called before the query and the body are parsed. Default: requires
   * `scope`.
   */
  readonly access?: (principal: Principal) => unknown
  readonly query?: Q
  readonly body?: B
  readonly bodyOptional?: true
  /** If set, the handler reads the body itself, which must have one of these media types. */
  readonly stream?: readonly string[]
  /** Descriptions of request headers, by name. */
  readonly headers?: Readonly<Record<string, string>>
  readonly answers: Readonly<Record<number, Success>>
  /** Errors that this route adds to the common errors. By status: the meaning of each code. */
  readonly refusals?: Readonly<Record<number, Readonly<Record<string, string>>>>
  handle(call: ApiCall<z.output<Q>, z.output<B>>): Promise<Handled> | Promise<void>
}

/** Declares a route. `handle` gets the types of the route's schemas. The route table does not need these types. */
export const apiRoute = <Q extends z.ZodObject, B extends z.ZodObject>(declared: ApiRoute<Q, B>): ApiRoute =>
  declared as unknown as ApiRoute

export function paramsOf(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
}

const pageMeta = z.object({
  limit: z.int().describe('Maximum number of entries in a page.'),
  next: z.string().nullable().describe('Value of `after` for the next page; null on the last page.'),
})

export function bodyOf({ one, list, raw }: Success): z.ZodType | undefined {
  if (one) return z.object({ meta: z.object({ type: z.literal(one[0]) }), data: one[1] })
  if (list) return z.object({ meta: z.object({ type: z.literal(list[0]), page: pageMeta }), data: z.array(list[1]) })
  return raw
}

export const errorDocument = z
  .object({
    code: z.string().describe('Stable identifier of the error, in snake case, for use by programs.'),
    message: z.string().describe('Explains to people what is wrong and what to do.'),
    errors: z
      .array(
        z.object({
          path: z.string().describe('Place of the error, for example `config.processors.limit.window`.'),
          message: z.string(),
        }),
      )
      .describe('The errors in the request, with their places. At most 50 are listed.'),
  })
  .meta({ id: 'Error' })
