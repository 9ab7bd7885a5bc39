import t from 'tap'
import { isLoopback, withoutQuery } from '../../../src/net/urls.js'

t.test('only this machine is this machine', t => {
  for (const host of ['localhost', '127.0.0.1', '127.1', '127.64.2.3', '::1', '[::1]']) t.ok(isLoopback(host), host)
  for (const host of ['127.0.0.1.example.com', '127.example.com', 'localhost.example.com', '10.0.0.1', '::', '127.'])
    t.notOk(isLoopback(host), host)
  t.end()
})

t.test('keys in a path are hidden, and names are not', async t => {
  for (const [url, shown] of [
    [
      'https://hooks.example.com/services/T024F9/B9x8Y7z6W5v4U3t2S1r0Q9p8',
      'https://hooks.example.com/services/T024F9/…',
    ],
    ['http://h:80/0e984725-c51c-4bf4-9960-e1c80e27aba0/logs?a=b', 'http://h:80/…/logs'],
    ['http://k3y5a1b2c3d4e5f6a7b8c9.example.com//v3/ingest/0123456789ab', undefined],
    ['http://h/logs-of-a-service-with-a-long-name-2026/_bulk', undefined],
    ['http://h/${.app}/loki/api/v1/push', undefined],
  ] as const)
    t.equal(withoutQuery(url), shown ?? url)
})
