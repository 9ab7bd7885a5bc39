import t from 'tap'
import { retryAfterMs } from '../../../../src/net/http/client/answers/statuses.js'

t.test('Retry-After: seconds, or a date in UTC in one of three forms, in any zone', t => {
  const before = process.env.TZ
  t.teardown(() => {
    if (before === undefined) delete process.env.TZ
    else process.env.TZ = before
  })
  const wall = Date.UTC(1994, 10, 6, 8, 49, 30)
  const LONGEST = 2 ** 31 * 1000
  for (const zone of ['America/New_York', 'Asia/Tokyo', 'UTC']) {
    process.env.TZ = zone
    t.equal(new Date(wall).getTimezoneOffset() === 0, zone === 'UTC', 'the zone is used')
    for (const [header, wanted] of [
      [undefined, undefined],
      ['', undefined],
      [' 7 ', 7000],
      ['0', 0],
      ['-7', undefined],
      ['7.5', undefined],
      ['9'.repeat(5000), LONGEST],
      ['Sun, 06 Nov 1994 08:49:37 GMT', 7000],
      ['Sunday, 06-Nov-94 08:49:37 GMT', 7000],
      ['Sun Nov  6 08:49:37 1994', 7000],
      ['Sun Nov 06 08:49:37 1994', 7000],
      ['Sun Nov  6 08:49:20 1994', 0],
      ['Sun Nov  6 08:49:37 9994', LONGEST],
      ['Sun Nov  6 99:49:37 1994', undefined],
      ['Sun, 06 Nov 1994 08:49:37', undefined],
      ['Sun, 06 Nov 1994 08:49:37 +0100', undefined],
      ['1994-11-06T08:49:37', undefined],
      ['Nov 6 1994', undefined],
      ['soon', undefined],
    ] as const)
      t.equal(retryAfterMs(header, wall), wanted, `${zone}: ${header?.slice(0, 40)}`)
  }
  t.end()
})
