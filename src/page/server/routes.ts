import { tapQueryOf } from '../../daemon/admin/tap.js'
import { Refusal } from '../../net/http/server/refusal.js'
import type { Call, HttpRoute, HttpRoutes } from '../../net/http/server/router.js'
import type { PageData } from './data.js'
import type { Turn } from './watch/budget.js'

export interface PageCall extends Call {
  readonly page: PageData
  /** Whether the client may see texts of events and receivers. */
  readonly hasTexts: boolean
  readonly turn: Turn
}

export interface ServedRoute extends HttpRoute<PageCall> {
  /** Whether the response contains texts of events, which requires the token. */
  readonly showsEvents?: true | ((query: URLSearchParams) => boolean)
}

export const ROUTES: HttpRoutes<ServedRoute> = {
  '/api/v1/status': { answer: ({ page, hasTexts }) => page.status(hasTexts) },
  '/api/v1/live': { isStream: true, answer: ({ page, response, hasTexts }) => page.follow(response, hasTexts) },
  '/api/v1/history': {
    answer({ page, query }) {
      const component = query.get('component')
      if (component === null) return page.history.all(wholeIn(query, 'points', 60, 3600))
      return page.history.of(component) ?? unknown(component)
    },
  },
  '/api/v1/components/*': { answer: async ({ page, id }) => (await page.component(id)) ?? unknown(id) },
  '/api/v1/tap': {
    showsEvents: true,
    isStream: true,
    answer: ({ page, query, response }) => page.tap(tapQueryOf(query), response),
  },
  '/api/v1/throttles/*': {
    async answer({ page, query, id, turn }) {
      // An empty value means the default bucket.
      const keys = query.has('key') ? query.getAll('key').map(key => key || null) : undefined
      const most = wholeIn(query, 'limit', 100, 1000)
      return (await page.throttle(id, { most, words: query.get('q') ?? undefined, keys }, turn)) ?? unknown(id)
    },
  },
  '/api/v1/what-if': {
    // With these options, the response depends on other fields of the events and can reveal them.
    showsEvents: query => query.has('key_field') || query.has('exclude'),
    answer({ page, query, turn }) {
      const { component = '', ...asked } = Object.fromEntries(query)
      return page.watch.whatIf(component, asked, turn)
    },
  },
  '/api/v1/find': {
    showsEvents: true,
    answer: ({ page, query, turn }) => page.watch.find(query.get('q') ?? '', turn, wholeIn(query, 'limit', 100, 100)),
  },
  '/api/v1/evidence': {
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
  '/api/v1/dead-letters': {
    answer: ({ page, query, hasTexts }) => page.letters(query.get('component') ?? '', hasTexts),
  },
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
