import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { inOrder } from '../../../../src/net/http/server/in-order.js'
import { failReply, headerText, onConnectionClosed, onReplyOver } from '../../../../src/net/http/server/respond.js'
import { HOST, listening } from '../../../support/address.js'
import { Seeded } from '../../../support/seeded.js'
import { until } from '../../../support/until.js'

t.test('text of any characters fits in a header, and is read back by decodeURIComponent', async t => {
  t.equal(headerText('łukasz@example.com'), '%C5%82ukasz@example.com')
  t.equal(headerText("plain.a+b_c'd@example.com"), "plain.a+b_c'd@example.com")
  t.equal(headerText('100%'), '100%25')
  t.equal(headerText('\ud800'), '%EF%BF%BD', 'a lone surrogate is replaced')
  const random = new Seeded(1)
  for (let i = 0; i < 5000; i++) {
    const text = String.fromCodePoint(...Array.from({ length: 1 + random.below(4) }, () => random.below(0x11_0000)))
    const encoded = headerText(text)
    if (!/^[\x21-\x7e]+$/.test(encoded)) t.fail(JSON.stringify(text))
    if (decodeURIComponent(encoded) !== text.toWellFormed()) t.fail(JSON.stringify(text))
  }
})

t.test('a reply that throws while it is written is answered in any case', async t => {
  let write = (_response: ServerResponse): void => {}
  const failures: string[] = []
  const server = createServer((_request, response) => {
    try {
      write(response)
    } catch (error) {
      failures.push((error as Error).message)
      failReply(response)
      // A second failure must not end in an exception.
      failReply(response)
    }
  })
  const url = `http://${HOST}:${await listening(t, server)}/`
  write = response => {
    response.setHeader('x-left', 'over')
    response.writeHead(202, { 'x-odd': 'ł' })
  }
  for (const method of ['GET', 'HEAD']) {
    const got = await fetch(url, { method })
    t.equal(got.status, 500)
    t.equal(got.headers.get('x-left'), null)
  }
  write = response => {
    response.writeHead(202, ['x-odd', 'ł'] as never)
  }
  t.equal((await fetch(url)).status, 500)
  write = response => {
    response.writeHead(202, { 'content-length': 5 }).write('a')
    throw new Error('in the middle')
  }
  await t.rejects(
    fetch(url).then(got => got.text()),
    'the connection ends when the head has been sent',
  )
  t.equal(failures.length, 4)
  t.equal(failures[3], 'in the middle')
})

t.test('replies are over when their connection closes, those that wait for earlier ones included', async t => {
  const responses: ServerResponse[] = []
  let over = 0
  let cancelled = 0
  const server = createServer((_request, response) => {
    responses.push(response)
    onReplyOver(response, () => over++)
    onConnectionClosed(response.req.socket, () => cancelled++)()
  })
  const client = connect(await listening(t, server), HOST)
  const warnings: string[] = []
  const warned = ({ name }: Error) => warnings.push(name)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20))
  await until(() => responses.length === 20)
  responses[0]!.end()
  await until(() => over === 1)
  client.resetAndDestroy()
  await until(() => over === 20)
  t.equal(cancelled, 0)
  let late = 0
  onReplyOver(responses[5]!, () => late++)
  t.equal(late, 1, 'at once when the connection has closed')
  t.same(warnings, [], 'many pipelined requests are no leak of listeners')
})

t.test('pipelined requests of a connection are handled one after the other, and are few', async t => {
  const held: ServerResponse[] = []
  const closed: number[] = []
  const handle = inOrder((_request, response) => void held.push(response), {
    atOnce: 2,
    tooMany: () => closed.push(held.length),
  })
  const port = await listening(t, createServer(handle))
  const dial = (requests: number) => {
    const client = connect(port, HOST).on('error', () => {})
    t.teardown(() => client.destroy())
    let said = ''
    client.on('data', part => (said += part))
    client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(requests))
    return { answers: () => said.split('HTTP/1.1 200').length - 1, ended: once(client, 'close') }
  }
  const modest = dial(60)
  for (let n = 0; n < 60; n++) {
    await until(() => held.length >= Math.min(n + 2, 60))
    t.equal(held.length, Math.min(n + 2, 60))
    held[n]!.end()
  }
  await until(() => modest.answers() === 60)
  await dial(67).ended
  t.same(closed, [62], 'beside those that are handled 64 wait')
  const next = dial(1)
  await until(() => held.length === 63)
  held[62]!.end()
  await until(() => next.answers() === 1)
})
