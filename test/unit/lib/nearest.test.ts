import t from 'tap'
import { NearestName } from '../../../src/lib/nearest.js'

const NAMES = ['limit', 'window', 'key_field', 'exclude', 'window_mode', 'max_keys', 'url', 'in']

t.test('the nearest name', async t => {
  const cases: [string, string | undefined][] = [
    ['limt', 'limit'],
    ['limits', 'limit'],
    ['lmiit', 'limit'],
    ['LIMIT', 'limit'],
    ['windw', 'window'],
    ['window_mdoe', 'window_mode'],
    ['keyfield', 'key_field'],
    ['inn', 'in'],
    ['ulr', 'url'],
    ['xy', undefined],
    ['a', undefined],
    ['', undefined],
    ['batch', undefined],
    ['x'.repeat(65), undefined],
  ]
  for (const [name, expected] of cases) t.equal(new NearestName().find(name, NAMES), expected, name)
  t.equal(new NearestName().find('b', ['a', 'ab']), 'ab', 'a single letter is not mistyped into another')
  t.equal(new NearestName().find('cat', ['bat', 'hat']), 'bat', 'the first wins')
})

t.test('work is bounded', async t => {
  const names = new NearestName(1000)
  const candidates = Array.from({ length: 100_000 }, (_, i) => `name_${i}`)
  t.not(names.find('name_x', candidates), undefined)
  t.equal(names.find('name_y', candidates), undefined, 'nothing is left')
})
