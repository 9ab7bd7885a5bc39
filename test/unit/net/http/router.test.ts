import { createServer } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { answerBy, type HttpRoute, type HttpRoutes } from '../../../../src/net/http/server/router.js'
import { HOST, listening } from '../../../support/address.js'

const ROUTES: HttpRoutes<HttpRoute> = {
  '/': { answer: () => ({ home: true }) },
  '/of/*': { answer: ({ id, query }) => ({ id, key: query.get('key') }) },
}

/** Sends bytes on a new connection. Resolves with all that comes back. */
async function sent(port: number, bytes: string): Promise<string> {
  const socket = connect(port, HOST).end(bytes)
  let text = ''
  for await (const part of socket.setEncoding('latin1')) text += part
  return text
}

t.test('a table of routes', async t => {
  const server = createServer((request, response) => void answerBy(ROUTES, request, response, 'nothing here'))
  const port = await listening(t, server)
  const head = 'HTTP/1.1\r\nhost: x\r\nconnection: close\r\n'
  const get = (target: string, method = 'GET') => sent(port, `${method} ${target} ${head}\r\n`)
  t.match(await get('/'), /^HTTP\/1.1 200 .*\{"home":true\}\n$/s)
  t.match(await get('/of/a%2Fb?key=c&key=d'), /\{"id":"a\/b","key":"c"\}\n$/)
  t.match(await get('http://elsewhere/of/a'), /\{"id":"a","key":null\}\n$/, 'as clients of a proxy send it')
  t.match(await get('http://elsewhere?key=1'), /\{"home":true\}\n$/)
  for (const target of ['/of', '/of/a/b', '/of/%E0%A4%A', '/constructor', '/x/../', '*'])
    t.match(await get(target), /^HTTP\/1.1 404 .*\{"status":"nothing here"\}\n$/s, target)
  t.match(await get('//'), /^HTTP\/1.1 404 /)
  t.match(await get('/', 'HEAD'), /^HTTP\/1.1 200 .*content-length: 14\r\n.*\r\n\r\n$/s)
  t.match(
    await get('/', 'DELETE'),
    /^HTTP\/1.1 405 .*\r\nallow: GET, HEAD\r\n.*\{"status":"use one of GET, HEAD"\}\n$/s,
  )
  const body = 'x'.repeat(500_000)
  const refused = await sent(port, `POST / ${head}content-length: ${body.length}\r\n\r\n${body}`)
  t.match(refused, /^HTTP\/1.1 405 /, 'the client gets the answer although it sends a body')
})
