import { signal } from '@preact/signals'
import { type Params, queryOf } from './api.js'

/** The parts of an address such as `#/throttle/limit_app?key=cart`. */
export interface PageRoute {
  readonly view: string
  readonly id: string | undefined
  readonly params: Readonly<Record<string, string>>
}

export const currentRoute = signal(parse(location.hash))
addEventListener('hashchange', () => (currentRoute.value = parse(location.hash)))

function parse(hash: string): PageRoute {
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
  const { view, id, params: old } = currentRoute.value
  replaceAddress(link(view, id, { ...old, ...params }))
}

/** Replaces the address, without a new entry in the history. */
export function replaceAddress(hash: string): void {
  history.replaceState(null, '', hash)
  currentRoute.value = parse(hash)
}
