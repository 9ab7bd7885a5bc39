import { signal } from '@preact/signals'
import { type Params, queryOf } from './api.js'

/** The parts of an address such as `#/throttle/limit_app?key=cart`. */
export interface Route {
  readonly view: string
  readonly id: string | undefined
  readonly params: Readonly<Record<string, string>>
}

export const route = signal(parse(location.hash))
addEventListener('hashchange', () => (route.value = parse(location.hash)))

function parse(hash: string): Route {
  const [path = '', query] = hash.replace(/^#\/?/, '').split(/\?(.*)/s)
  const [view = '', ...id] = path.split('/')
  return {
    view,
    id: id.length > 0 ? decoded(id.join('/')) : undefined,
    params: Object.fromEntries(new URLSearchParams(query)),
  }
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export function link(view: string, id?: string, params: Params = {}): string {
  return `#/${view}${id === undefined ? '' : `/${encodeURIComponent(id)}`}${queryOf(params)}`
}

/** Changes parameters of the address, without a new entry in the history. */
export function adjust(params: Params): void {
  const { view, id, params: old } = route.value
  replace(link(view, id, { ...old, ...params }))
}

/** Replaces the address, without a new entry in the history. */
export function replace(hash: string): void {
  history.replaceState(null, '', hash)
  route.value = parse(hash)
}
