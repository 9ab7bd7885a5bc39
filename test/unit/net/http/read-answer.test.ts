import { Readable } from 'node:stream'
import t from 'tap'
import { readAnswer } from '../../../../src/net/http/client/answers/read-answer.js'
import { events } from '../../../support/destination.js'

const TAKEN = '{"create":{"status":201}}'
const REFUSED = '{"create":{"status":400,"error":{"type":"a},{b"}}}'

/** The statuses that are read from a list for `count` events. */
async function statusesOf(items: readonly string[], count: number, space = '') {
  const text = `{"took":1,${space}"errors":false,"items":[${items.join(`,${space}`)}]}`
  const list = {
    name: 'items',
    isWhole: true as const,
    entry: (value: unknown, index: number) => {
      const status = (value as { create?: { status: number } } | undefined)?.create?.status
      return status === undefined ? undefined : { index, status }
    },
  }
  const answer = { body: Readable.from([Buffer.from(text)]), headers: { 'content-type': 'application/json' } }
  const { entries } = await readAnswer(answer, list, events(count))
  return entries?.map(({ index, status }) => `${index} ${status}`)
}

t.test('a list of equal entries is read like one of different entries', async t => {
  for (const count of [1, 2, 3, 1000]) {
    const all = new Array<string>(count).fill(TAKEN)
    const each = Array.from({ length: count }, (_, i) => `${i} 201`)
    t.same(await statusesOf(all, count), each)
    t.same(await statusesOf(all, count, ' '), each, 'with spaces')
    t.same(await statusesOf(all, count - 1), undefined, 'more entries than events')
    for (const place of [0, count >> 1, count - 1]) {
      const expected = each.with(place, `${place} 400`)
      t.same(await statusesOf(all.with(place, REFUSED), count), expected, `another entry at ${place}`)
    }
    t.same(
      await statusesOf(new Array<string>(count).fill(REFUSED), count),
      each.map(text => text.replace(/201$/, '400')),
    )
    t.same(await statusesOf(new Array<string>(count).fill('{"other":{}}'), count), undefined)
    t.same(await statusesOf([...all, TAKEN.slice(0, -1)], count + 1), undefined, 'not valid')
  }
})
