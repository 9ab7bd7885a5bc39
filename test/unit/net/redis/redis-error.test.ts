import t from 'tap'
import { redisProblem } from '../../../../src/net/redis/redis-error.js'

t.test('what a server replies is shown on one line, without control characters, and not at any length', async t => {
  const { kind, text } = redisProblem(new Error(`ERR \x1b[31m\n${'a'.repeat(100_000)}`))
  t.equal(kind, 'connection')
  t.match(text, /^ERR \\u\{1b\}\[31m\\u\{a\}a+$/)
  t.ok(text.length < 600)
})

t.test('no password is shown that a server without AUTH repeats', async t => {
  for (const name of ["'AUTH'", '`AUTH`', "'auth'"]) {
    const error = new Error(`ERR unknown command ${name}, with args beginning with: 'sluice' 'hunter2' `)
    t.same(redisProblem(error), {
      kind: 'denied',
      text: 'the server does not know the command AUTH; remove the password, or enable the command',
    })
  }
  const other = "ERR unknown command 'HELLO', with args beginning with: '2' 'AUTH' 'sluice' 'hunter2' "
  t.same(redisProblem(new Error(other)), { kind: 'connection', text: "ERR unknown command 'HELLO'" })
})

t.test('no password is shown that a server repeats otherwise, not even its beginning', async t => {
  t.same(redisProblem(new Error('ERR wrong arguments: AUTH sluice hunter2'), 'hunter2'), {
    kind: 'connection',
    text: 'ERR wrong arguments: AUTH sluice [hidden]',
  })
  t.notMatch(redisProblem(new Error(`${'a'.repeat(497)}hunter2`), 'hunter2').text, 'hun')
})
