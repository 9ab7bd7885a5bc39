import t from 'tap'
import { theKernel } from '../../../src/kernel/kernel.js'
import { throttleDifferences } from '../../support/throttle-differences.js'

t.test('decisions about whole batches are those about the same events one by one', async t => {
  const { strings } = theKernel()!
  const called = { narrow: 0, hash: 0 }
  const [narrow, hash] = [strings.narrow, strings.hash]
  t.teardown(() => Object.assign(strings, { narrow, hash }))
  strings.narrow = (...given) => {
    called.narrow++
    return narrow.apply(strings, given)
  }
  strings.hash = (...given) => {
    called.hash++
    return hash.apply(strings, given)
  }
  const { wrong, events } = throttleDifferences(20_260_101, 6000)
  t.same(wrong, [])
  t.ok(events > 100_000, `${events} events`)
  t.ok(called.narrow > 300 && called.hash > 300, `${called.narrow} comparisons and ${called.hash} hashes of batches`)
})
