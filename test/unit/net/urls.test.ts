import t from 'tap'
import { isLoopback } from '../../../src/net/urls.js'

t.test('only this machine is this machine', t => {
  for (const host of ['localhost', '127.0.0.1', '127.1', '127.64.2.3', '::1', '[::1]']) t.ok(isLoopback(host), host)
  for (const host of ['127.0.0.1.example.com', '127.example.com', 'localhost.example.com', '10.0.0.1', '::', '127.'])
    t.notOk(isLoopback(host), host)
  t.end()
})
