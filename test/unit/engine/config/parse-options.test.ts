import t from 'tap'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { parseOptions } from '../../../../src/engine/config/parse-options.js'

const faults = (options: unknown) => {
  const parsed = parseOptions(throttle.options, options)
  return 'faults' in parsed ? parsed.faults.map(({ path, message }) => `${path}: ${message}`) : parsed.value
}

t.test('options of a program are parsed, and refused, as those of a file', async t => {
  t.match(faults({ limit: 3, window: '1 Minutes', key_field: '.a', exclude: undefined }), { limit: 3, window: 60_000 })
  const cases: [unknown, string[]][] = [
    [{ limit: 0, window: '1s' }, ['limit: must be at least 1']],
    [
      { limit: '5', window: 7 },
      ['limit: must be a whole number, not text; remove the quotes', 'window: has no unit; write 7s for seconds'],
    ],
    [{}, ['limit: is missing; it must be a whole number', 'window: is missing; it must be a duration']],
    [{ limit: undefined, window: '1s' }, ['limit: is missing']],
    [{ limit: null, window: '1s' }, ['limit: has no value']],
    [{ limit: 1, window: '1s', windw_mode: 'fixed' }, ['windw_mode: unknown option; did you mean "window_mode"?']],
    [
      { limit: 1, window: '1s', window_mode: 'fixd' },
      ['window_mode: must be one of fixed, aligned, sliding, gcra, not "fixd"; did you mean "fixed"?'],
    ],
    [
      { limit: 1, window: { value: 1, unit: 'Week' } },
      ['window.unit: must be one of Milliseconds, Seconds, Minutes, Hours, Days'],
    ],
    [{ limit: 1n, window: '1s' }, ['limit: must be a whole number']],
    [{ limit: () => 1, window: ['1s'] }, ['limit: must be a whole number', 'window: must be a duration']],
    ['limit: 1', [': must be a mapping of options']],
    [undefined, [': ']],
    [[1], [': must be a mapping of options, not a list']],
    [
      { limit: 1, window: '1s', exclude: 'if (.a is 1)' },
      ['exclude: unknown operator "is"; did you mean equal? (column 8'],
    ],
  ]
  for (const [options, expected] of cases) {
    const got = faults(options) as string[]
    t.equal(got.length, expected.length, got.join(' | '))
    for (const [i, text] of expected.entries()) t.ok(got[i]?.startsWith(text), `${got[i]} begins with ${text}`)
  }
})

t.test('a text with ${…} is not taken from the environment', async t => {
  const parsed = faults({ limit: 1, window: '1s', exclude: "if (.a equal '${HOME}')" })
  t.match(parsed, { exclude: { values: ['${HOME}'] } })
})
