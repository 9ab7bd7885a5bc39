import { createServer, request } from 'node:http'
import type { Test } from 'tap'
import { HOST, listening } from './address.js'

/** A proxy before a server, which wants the key that is `key` at that time, as in `Authorization: SCHEME KEY`. */
export async function keyGate(t: Test, server: string, scheme: string, key: string) {
  const proxy = createServer((from, to) => {
    if (from.headers.authorization !== `${scheme} ${gate.key}`) {
      from.resume()
      to.writeHead(401).end()
      return
    }
    const forwarded = request(server + from.url, { method: from.method!, headers: from.headers }, answer => {
      to.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(to)
    })
    forwarded.on('error', () => to.destroy())
    from.pipe(forwarded)
  })
  const port = await listening(t, proxy)
  const gate = { key, url: (path: string) => `http://${HOST}:${port}${path}` }
  return gate
}
