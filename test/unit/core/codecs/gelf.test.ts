import t from 'tap'
import { encodeLines } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { codecOf } from '../../../../src/core/codecs/list.js'
import type { Fields } from '../../../../src/core/event/event-fields.js'
import { batchOf } from '../../../support/batches.js'
import { readFields } from '../../../support/codecs.js'

const codec = codecOf('gelf')!
const read = (line: unknown) =>
  readFields(codec, Buffer.from(typeof line === 'string' ? line : JSON.stringify(line))) as Fields | undefined
const least = { version: '1.1', host: 'h', short_message: 'm' }
const event = { message: 'm', host: 'h' }

t.test('the message of the specification', async t => {
  t.same(
    read({
      version: '1.1',
      host: 'example.org',
      short_message: 'A short message that helps you identify what is going on',
      full_message: 'Backtrace here\n\nmore stuff',
      timestamp: 1385053862.3072,
      level: 1,
      _user_id: 9001,
      _some_info: 'foo',
      _some_env_var: 'bar',
    }),
    {
      message: 'A short message that helps you identify what is going on',
      host: 'example.org',
      timestamp: '2013-11-21T17:11:02.3072Z',
      level: 1,
      full_message: 'Backtrace here\n\nmore stuff',
      user_id: 9001,
      some_info: 'foo',
      some_env_var: 'bar',
    },
  )
})

t.test('what senders write besides', async t => {
  t.same(read({ ...least, facility: 'f', line: 3, _a: { b: [1] } }), {
    ...event,
    facility: 'f',
    line: 3,
    a: { b: [1] },
  })
  t.same(read({ ...least, _level: 'x', _message: 'y' }), { ...event, level: 'x', _message: 'y' })
  t.same(read({ ...least, _level: 'x', level: 3, _host: 'z' }), { ...event, level: 3, _level: 'x', _host: 'z' })
  t.same(read({ short_message: 'm', __a: 1, _: 2 }), { message: 'm', _a: 1, '': 2 })
  t.same(read({ ...least, timestamp: '1385053862' }), { ...event, timestamp: '2013-11-21T17:11:02.000Z' })
  t.same(read('{"short_message":"m","timestamp":1.385053862E9}'), {
    message: 'm',
    timestamp: '2013-11-21T17:11:02.000Z',
  })
  for (const timestamp of ['soon', 1e300, `${'1'.repeat(60)}`, null, {}])
    t.same(read({ ...least, timestamp }), { ...event, timestamp })
  for (const line of ['', '{}', '{"short_message":1}', '{"short_message":"m"', '["short_message"]', 'short_message'])
    t.equal(read(line), undefined, line)
})

t.test('every event can be written', async t => {
  const write = (fields: Fields) => JSON.parse(codec.encode!(fields))
  t.same(write({}), { version: '1.1', host: 'unknown', short_message: '-' })
  t.same(
    write({
      ...event,
      timestamp: '2013-11-21T18:11:02.3072+01:00',
      level: 'WARN',
      took: 1.5,
      ok: true,
      none: null,
      user: { id: 7 },
      id: 'x',
      'a b': 'c',
      version: 2,
    }),
    {
      ...least,
      timestamp: 1385053862.3072,
      level: 4,
      _took: 1.5,
      _ok: 'true',
      _none: 'null',
      _user: '{"id":7}',
      __id: 'x',
      _a_b: 'c',
      _version: 2,
    },
  )
  t.same(write({ message: 5, host: '', timestamp: 5, level: 30, full_message: 1 }), {
    version: '1.1',
    host: 'unknown',
    short_message: '5',
    _timestamp: 5,
    _level: 30,
    _full_message: 1,
  })
})

t.test('long messages do not end up in one another', t => {
  const lines = ['x', 'y', 'z'].map(letter => `{"short_message":"${letter.repeat(20_000)}"}`)
  const { parts } = encodeLines(JSON_OBJECTS, [batchOf(lines, { decode: 'gelf' })])
  const events = Buffer.concat(parts).toString().trimEnd().split('\n')
  t.same(
    events.map(event => JSON.parse(event).message),
    ['x', 'y', 'z'].map(letter => letter.repeat(20_000)),
  )
  t.end()
})
