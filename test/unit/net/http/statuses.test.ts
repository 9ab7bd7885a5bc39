import t from 'tap'
import { causeOf, failureOf } from '../../../../src/net/http/client/answers/statuses.js'

t.test('a status says what is at fault, as far as it is known, and how delivery continues', async t => {
  const all = [100, 301, 400, 401, 403, 404, 405, 407, 408, 410, 413, 421, 422, 425, 429, 500, 503, 504]
  t.same(
    all.map(status => `${status} ${failureOf(status)} ${causeOf(status)}`),
    [
      '100 retry undefined',
      '301 hold undefined',
      '400 reject undefined',
      '401 hold credentials',
      '403 hold credentials',
      '404 reject address',
      '405 reject address',
      '407 hold credentials',
      '408 retry overload',
      '410 reject address',
      '413 too_large undefined',
      '421 reject address',
      '422 reject undefined',
      '425 retry undefined',
      '429 retry overload',
      '500 retry undefined',
      '503 retry overload',
      '504 retry overload',
    ],
  )
})
