import t from 'tap'
import { fuzzCodecs } from '../../../support/codec-fuzz.js'

t.test('no damaged line is too much for a codec', async t => {
  t.same(fuzzCodecs({ seed: 14, rounds: 4, longBytes: 100_000, shapes: 5 }).problems, [])
})

t.test('a line of 10 MB of a bad shape is read in a time that grows with its length alone', async t => {
  t.same(fuzzCodecs({ seed: 7, rounds: 0, longBytes: 10_000_000, shapes: 1 }).problems, [])
})
