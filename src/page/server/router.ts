import type { IncomingMessage, ServerResponse } from 'node:http'
import { tapQueryOf } from '../../daemon/admin/tap.js'
import { Gone, Refusal } from '../../net/http/server/refusal.js'
import { sendReply } from '../../net/http/server/respond.js'
import type { PageData } from './data.js'
import type { Turn } from './watch/budget.js'

export interface Call {
  readonly page: PageData
  readonly query: URLSearchParams
  /** The ID in a path such as `components/ID`; empty in other paths. */
  readonly id: string
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Whether the client may see texts of events and receivers. */
  readonly hasTexts: boolean
  readonly turn: Turn
}

export interface Route {
  /** Whether the response contains texts of events, which requires the token. */
  readonly showsEvents?: true | ((query: URLSearchParams) => boolean)
  /** Whether the response lasts until the client disconnects. */
  readonly isStream?: true
  /** The result is sent as JSON. If the result is undefined, the handler has already answered. May throw a Refusal. */
  answer(call: Call): unknown
}

/** By path; `*` stands for an id. */
const ROUTES: Readonly<Record<string, Route>> = {
  status: { answer: ({ page, hasTexts }) => page.status(hasTexts) },
  live: { isStream: true, answer: ({ page, response, hasTexts }) => page.follow(response, hasTexts) },
  history: {
    answer({ page, query }) {
      const component = query.get('component')
      if (component === null) return page.history.all(wholeIn(query, 'points', 60, 3600))
      return page.history.of(component) ?? unknown(component)
    },
  },
  'components/*': { answer: async ({ page, id }) => (await page.component(id)) ?? unknown(id) },
  tap: {
    showsEvents: true,
    isStream: true,
    answer: ({ page, query, response }) => page.tap(tapQueryOf(query), response),
  },
  'throttles/*': {
    async answer({ page, query, id, turn }) {
      // An empty value means the default bucket.
      const keys = query.has('key') ? query.getAll('key').map(key => key || null) : undefined
      const most = wholeIn(query, 'limit', 100, 1000)
      return (await page.throttle(id, { most, words: query.get('q') ?? undefined, keys }, turn)) ?? unknown(id)
    },
  },
  'what-if': {
    // With these options, the response depends on other fields of the events and can reveal them.
    showsEvents: query => query.has('key_field') || query.has('exclude'),
    answer({ page, query, turn }) {
      const { component = '', ...asked } = Object.fromEntries(query)
      return page.watch.whatIf(component, asked, turn)
    },
  },
  find: {
    showsEvents: true,
    answer: ({ page, query, turn }) => page.watch.find(query.get('q') ?? '', turn, wholeIn(query, 'limit', 100, 100)),
  },
  evidence: {
    showsEvents: true,
    answer({ page, query }) {
      const bucket = query.get('bucket')
      return page.watch.evidence({
        component: query.get('component') ?? '',
        reason: query.get('reason') ?? undefined,
        // An empty value means the default bucket.
        bucket: bucket === null ? undefined : bucket || null,
        limit: wholeIn(query, 'limit', 20, 200),
      })
    },
  },
  'dead-letters': { answer: ({ page, query, hasTexts }) => page.letters(query.get('component') ?? '', hasTexts) },
}

export const API = '/api/v1/'

/** The route for a path, and the id in the path; undefined if the path has no route. */
export function routeOf(path: string): { readonly route: Route; readonly id: string } | undefined {
  if (!path.startsWith(API)) return undefined
  const [name = '', id, ...more] = path.slice(API.length).split('/')
  const key = id === undefined ? name : `${name}/*`
  if (more.length > 0 || !Object.hasOwn(ROUTES, key)) return undefined
  try {
    return { route: ROUTES[key]!, id: decodeURIComponent(id ?? '') }
  } catch {
    return undefined
  }
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
  }
}

/** Reads a whole number from 1 to `most` from a query. If missing, returns `usual`. If invalid, throws a Refusal. */
export function wholeIn(query: URLSearchParams, name: string, usual: number, most: number): number {
  const text = query.get(name)
  const value = text === null ? usual : Number(text)
  if (Number.isInteger(value) && value >= 1 && value <= most) return value
  throw new Refusal(400, 'invalid', `${name} must be a whole number from 1 to ${most}`)
}

function unknown(id: string): never {
  throw new Refusal(404, 'not_found', `there is no component ${JSON.stringify(id)}; api/v1/status lists them`)
}
