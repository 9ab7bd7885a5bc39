import t from 'tap'
import { parseCondition } from '../../../../src/core/condition/parse.js'
import { lostWithout } from '../../../../src/core/condition/without-field.js'

t.test('what an event without a field does not satisfy, although it is not what the condition is about', async t => {
  for (const [condition, field] of [
    [".path not_equal '/healthz'", '.path'],
    [".app != 'a' AND .env not_in ('dev', 'test')", '.app'],
    [".level equal 'error' OR .app not_equal 'a'", '.app'],
    ['.a not_equal .b', '.a'],
    ["NOT (NOT .path not_equal '/')", '.path'],
    ["NOT .path equal '/healthz'", undefined],
    [".path exists AND .path not_equal '/healthz'", undefined],
    [".level equal 'error' AND .app not_equal 'a'", undefined],
    ["NOT .path exists OR .path not_equal '/'", undefined],
    ["NOT .path not_equal '/'", undefined],
    [".level equal 'error'", undefined],
  ] as const)
    t.equal(lostWithout(parseCondition(condition)), field, condition)
})
