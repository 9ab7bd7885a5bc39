import t, { type Test } from 'tap'
import { lagIn } from '../../../../src/components/redis/redis-source.js'
import { redis } from '../../../../src/components/redis/source.js'
import { eventId } from '../../../../src/core/event/event-id.js'
import { OpenedSource } from '../../../../src/engine/testing/check-source.js'
import { MemoryCheckpoints } from '../../../../src/engine/testing/taker.js'
import { FakeRedis } from '../../../support/fake-redis.js'
import { Taker } from '../../../support/pushed.js'
import { until } from '../../../support/until.js'

async function opened(t: Test, more: object = {}) {
  const server = await FakeRedis.start()
  const options = { url: server.url, stream: 'logs', ...more }
  const source = new OpenedSource(redis, { options, write: () => {}, close: () => server.close() })
  t.teardown(() => source.close())
  const out = new Taker()
  const events = () => out.batches.flatMap(batch => Array.from({ length: batch.length }, (_, i) => batch.fields(i)))
  const messages = () => events().map(({ message }) => message)
  return { server, out, events, messages, begin: (checkpoints?: MemoryCheckpoints) => source.begin(out, checkpoints) }
}

t.test('an entry is a line of its field, or a JSON object of all its fields', async t => {
  const { server, events, begin } = await opened(t, { decode: 'json', field: 'line' })
  server.add([
    ['other', '1', 'line', '{"app":"a"}'],
    ['app', 'b', 'text', 'two\nlines'],
    ['line', 'no JSON'],
    ['line', ''],
    ['line', '{"app":\n"c"}\n'],
  ])
  await begin()
  await until('all events', () => events().length === 5)
  t.match(events(), [
    { app: 'a' },
    { app: 'b', text: 'two\nlines' },
    { message: 'no JSON' },
    { message: '' },
    { app: 'c' },
  ])
})

t.test(
  'an entry is acknowledged when its event is settled, in any order; what is given back is read again',
  async t => {
    const { server, out, messages, begin } = await opened(t)
    for (let n = 1; n <= 3; n++) {
      server.add([['message', `line ${n}`]])
      if (n === 1) await begin()
      await until(`line ${n}`, () => messages().length === n)
      out.batches[0]!.origin.wanted.areIdsUsed = true
    }
    t.same([...server.held.keys()], [1, 2, 3])
    const [first, second, third] = out.unsettled.splice(0)
    const id = eventId(out.batches[1]!, 0)
    third!.settle('rejected')
    await until('the third is acknowledged', () => !server.held.has(3))
    second!.settle('errored')
    await until('it comes again', () => messages().length === 4)
    t.equal(messages()[3], 'line 2')
    t.equal(eventId(out.batches[3]!, 0), id, 'as the same event')
    t.not(eventId(out.batches[2]!, 0), id)
    t.same([...server.held.keys()], [1, 2], 'the first one, which is still held, did not come again')
    first!.settle('delivered')
    out.settle('delivered')
    await until('all are acknowledged', () => server.held.size === 0)
  },
)

t.test('of a batch that is delivered in part, the rest is read again', async t => {
  const { server, out, messages, begin } = await opened(t)
  server.add([['message', 'a']])
  await begin()
  await until('the first', () => messages().length === 1)
  server.add(['b', 'c', 'd', 'e'].map(message => ['message', message]))
  await until('the others', () => messages().length === 5)
  const last = out.batches.at(-1)!
  t.ok(last.length > 1, 'there are several in the last batch')
  out.unsettled.pop()!.settle('errored', last.size(0), last.bytes)
  out.settle('delivered')
  await until('they come again', () => messages().length === 5 + last.length - 1)
  t.same(messages().slice(5), messages().slice(6 - last.length, 5))
})

t.test('after the connection was lost, what was delivered is acknowledged and nothing comes twice', async t => {
  const { server, out, messages, begin } = await opened(t)
  server.add([
    ['message', 'a'],
    ['message', 'b'],
  ])
  const { hasFailed, again } = await begin()
  await until('both', () => messages().length === 2)
  server.drop()
  await until('the run fails', hasFailed)
  out.unsettled.shift()!.settle('delivered')
  const asked: string[] = []
  server.refuse = command => {
    asked.push(command)
    return undefined
  }
  await again()
  server.add([['message', 'c']])
  await until('the next', () => messages().length === 3)
  t.same(messages(), ['a', 'b', 'c'])
  t.match(
    asked.find(command => command.startsWith('XREADGROUP')),
    /COUNT 1 /,
    'the reply may have been too large',
  )
  t.notOk(server.held.has(1))
  out.settle('delivered')
  await until('all are acknowledged', () => server.held.size === 0)
})

t.test('what a consumer that is gone holds is taken over, and no one takes what is held', async t => {
  const { server, out, messages, begin } = await opened(t, { claim_after: '3s' })
  server.add([['message', 'own']])
  await begin()
  await until('the first', () => messages().length === 1)
  server.add([['message', 'of another']])
  server.held.set(2, { consumer: 'gone', since: Date.now() - 60_000 })
  await until('it comes', () => messages().length === 2)
  t.match(server.held.get(2), { consumer: 'here-in' })
  const since = server.held.get(1)!.since
  await until('its own is shown to be held', () => server.held.get(1)!.since > since)
  out.settle('delivered')
  await until('all are acknowledged', () => server.held.size === 0)
  t.equal(messages().length, 2)
})

t.test('many entries of a consumer that is gone are taken over one part after the other, without a wait', async t => {
  const { server, messages, begin } = await opened(t, { claim_after: '6s', read_from: 'end' })
  server.add(Array.from({ length: 2500 }, () => ['message', 'of another']))
  for (let n = 1; n <= 2500; n++) server.held.set(n, { consumer: 'gone', since: 0 })
  const asked: string[] = []
  server.refuse = command => {
    asked.push(command)
    return undefined
  }
  await begin()
  await until('new entries are read', () => asked.some(command => /^XREADGROUP.* >$/.test(command)))
  server.add([['message', 'own']])
  await until('all of them', () => messages().length === 2501)
  const claims = asked.filter(command => /^X(AUTO)?CLAIM/.test(command))
  t.match(claims, [/^XCLAIM/, /^XAUTOCLAIM.* 0-0 COUNT/, /^XAUTOCLAIM.* 1001-0 COUNT/, /^XAUTOCLAIM.* 2001-0 COUNT/])
})

t.test('entries that were trimmed while they were held are counted, and forgotten', async t => {
  const { server, begin } = await opened(t)
  server.add([
    ['message', 'a'],
    ['message', 'b'],
  ])
  server.held.set(1, { consumer: 'here-in', since: 0 })
  server.trim(1)
  const { counters } = await begin()
  await until('it is forgotten', () => !server.held.has(1))
  t.equal(counters.counter('sluice_redis_trimmed_entries_total', '').value, 1)
})

t.test('a refusal of the server ends the run with what to do', async t => {
  const { server, begin } = await opened(t)
  server.refuse = () => new Error("NOPERM User sluice has no permissions to run the 'xgroup' command")
  const { run } = await begin()
  await t.rejects(run, /needs "~logs \+xreadgroup/)
})

t.test('a refusal of acknowledgements ends the run, and nothing comes twice when they are allowed', async t => {
  const { server, out, messages, begin } = await opened(t)
  server.refuse = command =>
    command.startsWith('XACK')
      ? new Error("NOPERM User sluice has no permissions to run the 'xack' command")
      : undefined
  server.add([['message', 'a']])
  const { run, again } = await begin()
  await until('the first', () => messages().length === 1)
  out.settle('delivered')
  await t.rejects(run, /needs "~logs .*\+xack/)
  server.refuse = () => undefined
  server.add([['message', 'b']])
  await again()
  await until('the next', () => messages().length === 2)
  t.same(messages(), ['a', 'b'])
})

t.test('a group that was lost is made again from the beginning, also by the next process', async t => {
  const { server, out, messages, begin } = await opened(t, { read_from: 'end' })
  server.add([['message', 'before the first start']])
  const checkpoints = new MemoryCheckpoints()
  const { hasFailed, again, logged, end } = await begin(checkpoints)
  const text = 'the group no longer existed; created it again, and reading the stream from its beginning'
  const logs = () => logged.filter(warning => warning.text === text)
  let isRead = false
  server.refuse = command => void (isRead ||= /^XREADGROUP.* >$/.test(command)) as undefined
  await until('it is read', () => isRead)
  t.same(logs(), [])
  server.lose()
  server.add([['message', 'a']])
  await until('the run fails', hasFailed)
  server.add([['message', 'b']])
  await again()
  await until('both', () => messages().length === 2)
  t.match(logs(), [{ level: 'warn', fields: { stream: 'logs', group: 'sluice' } }])
  out.settle('delivered')
  await until('both are acknowledged', () => server.held.size === 0)
  await checkpoints.flush()
  await end()
  server.lose()
  server.add([['message', 'c']])
  await begin(checkpoints)
  await until('the next', () => messages().length === 3)
  t.same(messages(), ['a', 'b', 'c'])
})

t.test('the lag of a group, unless the server does not know it', async t => {
  const groups = [
    ['name', 'other', 'lag', 1],
    ['name', 'lag', 'consumers', 2, 'lag', 3],
    ['name', 'sluice', 'consumers', 2, 'lag', null],
    ['name', 'old', 'consumers', 2],
  ]
  t.same(
    ['lag', 'sluice', 'old', 'gone'].map(name => lagIn(groups, name)),
    [3, undefined, undefined, undefined],
  )
})
