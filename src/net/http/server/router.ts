import type { IncomingMessage, ServerResponse } from 'node:http'
import { Gone, Refusal } from './refusal.js'
import { readPast, sendReply } from './respond.js'

/** The request target, without the host that clients of proxies send. */
const TARGET = /^(?:https?:\/\/[^/?]*)?([^?]*)\??(.*)$/is
const READS = ['GET', 'HEAD']

/** A request at the path of a route. */
export interface Call {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly query: URLSearchParams
  /** The part of the path that `*` stands for; empty in other paths. */
  readonly id: string
}

export interface HttpRoute<C = Call> {
  /** Whether the response lasts until the client disconnects. */
  readonly isStream?: true
  /** The result is sent as JSON. If the result is undefined, the handler has already answered. May throw a Refusal. */
  answer(call: C): unknown
}

/** By path; `*` at its end stands for an id. */
export type HttpRoutes<R> = Readonly<Record<string, R>>

export function addressOf({ url = '' }: IncomingMessage): { readonly path: string; readonly query: URLSearchParams } {
  const [, path, query] = TARGET.exec(url)!
  return { path: path || '/', query: new URLSearchParams(query) }
}

/** The route at a path, and the id in the path. */
export function routeAt<R>(
  routes: HttpRoutes<R>,
  path: string,
): { readonly route: R; readonly id: string } | undefined {
  if (Object.hasOwn(routes, path)) return { route: routes[path]!, id: '' }
  const id = path.lastIndexOf('/') + 1
  const parent = `${path.slice(0, id)}*`
  if (!Object.hasOwn(routes, parent)) return undefined
  try {
    return { route: routes[parent]!, id: decodeURIComponent(path.slice(id)) }
  } catch {
    return undefined
  }
}

/** Throws a Refusal if the method is not in `allowed`. */
export function checkMethod({ method = '' }: IncomingMessage, allowed: readonly string[] = READS): void {
  if (allowed.includes(method)) return
  const allow = allowed.join(', ')
  throw new Refusal(405, 'method_not_allowed', `use one of ${allow}`, { allow })
}

/** Answers with the result of `make`, or with the error that it throws. */
export async function reply(response: ServerResponse, make: () => unknown): Promise<void> {
  try {
    const body = await make()
    if (body !== undefined) sendReply(response, { status: 200, body })
  } catch (error) {
    if (error instanceof Gone) return
    if (!(error instanceof Refusal)) throw error
    const { status, headers, close, message } = error
    sendReply(response, { status, headers, close, body: { status: message } })
  } finally {
    // Without a limit, Node.js would read the rest of the body until the request times out.
    if (!response.req.complete) readPast(response.req)
  }
}

/** Answers a request by a table of routes. `nothing`: the message for other paths. */
export async function answerBy(
  routes: HttpRoutes<HttpRoute>,
  request: IncomingMessage,
  response: ServerResponse,
  nothing: string,
): Promise<void> {
  const { path, query } = addressOf(request)
  await reply(response, () => {
    const found = routeAt(routes, path)
    if (!found) throw new Refusal(404, 'not_found', nothing)
    checkMethod(request, found.route.isStream && ['GET'])
    return found.route.answer({ request, response, query, id: found.id })
  })
}
