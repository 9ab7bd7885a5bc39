import t from 'tap'
import { HeaviestKeys } from '../../../../src/components/throttle/heaviest-keys.js'
import { seeded } from '../../../support/seeded.js'

t.test('what is known of a key holds, however many there are and in whatever order they come', async t => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = seeded(seed)
    const capacity = 2 + Math.floor(random() * 20)
    const heaviest = new HeaviestKeys(capacity)
    const real = new Map<string, number>()
    for (let round = 0; round < 30; round++) {
      for (let n = Math.floor(random() * 40); n > 0; n--) {
        const key = `k${Math.floor(random() ** 3 * 100)}`
        const events = 1 + Math.floor(random() * 50)
        heaviest.add(key, events)
        real.set(key, (real.get(key) ?? 0) + events)
      }
      heaviest.trim()
      const followed = new Map([...heaviest.keys].map(key => [key.name, key]))
      const wrong = [...real].filter(([name, events]) => {
        const key = followed.get(name)
        return key ? key.counted > events || key.counted + key.missed < events : events > heaviest.floor
      })
      if (wrong.length > 0 || followed.size > capacity) t.fail(`seed ${seed}`, { wrong, size: followed.size })
    }
  }
})

t.test('keys that are kept are followed however light they are', async t => {
  const heaviest = new HeaviestKeys(2)
  heaviest.add('kept', 1)
  for (const key of heaviest.keys) key.isKept = true
  for (const name of ['a', 'b', 'c']) heaviest.add(name, 10)
  heaviest.trim()
  t.same([...heaviest.keys].map(({ name }) => name).sort(), ['a', 'kept'])
  t.equal(heaviest.floor, 10)
})
