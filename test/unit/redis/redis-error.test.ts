import t from 'tap'
import { redisProblem } from '../../../src/redis/redis-error.js'

t.test('what a server replies is shown on one line, without control characters, and not at any length', async t => {
  const { kind, text } = redisProblem(new Error(`ERR \x1b[31m\n${'a'.repeat(100_000)}`))
  t.equal(kind, 'connection')
  t.match(text, /^ERR \\u\{1b\}\[31m\\u\{a\}a+$/)
  t.ok(text.length < 600)
})
