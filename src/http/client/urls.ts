import type { ClientOptions } from './options.js'

/** The URL without parts that may be secret. */
export function withoutQuery(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//')
}

/** The remote host to which the key is sent without encryption; undefined if there is none. */
export function plainKeyHost({ url, auth }: ClientOptions): string | undefined {
  const { hostname, protocol } = new URL(url)
  const isPrivate = auth.type === 'none' || protocol === 'https:' || /^(localhost|127\..*|\[::1\])$/.test(hostname)
  return isPrivate ? undefined : hostname
}
