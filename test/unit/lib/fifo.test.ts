import t from 'tap'
import { Fifo } from '../../../src/lib/fifo.js'
import { Seeded } from '../../support/seeded.js'

t.test('first in, first out, as an array would have it', async t => {
  const random = new Seeded(1)
  const fifo = new Fifo<number>()
  const array: number[] = []
  for (let i = 0; i < 20_000; i++) {
    const growing = Math.floor(i / 2000) % 2 === 0
    if (random.chance(growing ? 0.7 : 0.3)) {
      fifo.push(i)
      array.push(i)
    } else if (fifo.shift() !== array.shift()) t.fail(`step ${i}`)
    if (random.chance(0.0005)) {
      fifo.clear()
      array.length = 0
    }
    if (fifo.first !== array[0] || fifo.length !== array.length) t.fail(`step ${i}`)
  }
  while (array.length > 0) if (fifo.shift() !== array.shift()) t.fail('at the end')
  t.same([fifo.length, fifo.first, fifo.shift(), fifo.length], [0, undefined, undefined, 0])
})
