import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { readBody } from '../../../../src/net/http/server/body.js'
import { Gone } from '../../../../src/net/http/server/refusal.js'
import { HOST, listening } from '../../../support/address.js'

const LEASE = { hold: () => {}, received: () => {}, release: () => {} }

t.test('a client that leaves before its body is read, whether all of it came or not', async t => {
  for (const length of [1, 9]) {
    const server = createServer()
    const socket = connect({ host: HOST, port: await listening(t, server) })
    socket.on('error', () => {}).write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\nx`)
    const [request] = await once(server, 'request')
    const closed = new Promise(resolve => request.on('error', () => {}).once('close', resolve))
    socket.resetAndDestroy()
    await closed
    await t.rejects(readBody(request, { maxBytes: 100, lease: LEASE, onBegin: () => {} }), new Gone())
  }
})
