import { resolve } from 'node:path'
import t from 'tap'
import { components } from '../../../../src/components/list.js'
import { parseConfig } from '../../../../src/engine/config/load.js'

type Env = Record<string, string>

t.test('the service', async t => {
  const alone = (yaml: string, env: Env = {}) => parseConfig(yaml, 'c.yaml', { env, components, serviceAlone: true })
  const { service } = alone('service: { trusted_proxies: [10.0.0.0/8, "::1"] }')
  t.match(service, {
    listen: { host: '127.0.0.1', port: 8080 },
    dataDir: resolve('service-state'),
    max_body: 1_000_000,
    store: { type: 'embedded' },
  })
  t.equal(alone('service: {}', { STATE_DIRECTORY: '/var/lib/sluice' }).service?.dataDir, '/var/lib/sluice/service')
  t.equal(alone('service: { data_dir: x }').service?.dataDir, resolve('x'))
  t.throws(
    () => parseConfig('service: {}', 'c.yaml', { env: {}, components }),
    /there is no source/,
    'too little for the daemon',
  )
  t.throws(() => alone('metrics: false'), /there is no source/)
  t.throws(() => alone('service: {}\nsources: {}'), /there is no source/)
  const cases: [string, string[]][] = [
    ['service: { lissten: x }', ['1:12: service.lissten: unknown option; did you mean "listen"?']],
    [
      'service: { trusted_proxies: [10.0.0.0/33] }',
      [
        '1:30: service.trusted_proxies[0]: must be an address or a range of addresses, as in 10.0.0.0/8, not "10.0.0.0/33"',
      ],
    ],
    [
      'service: { limits: { redis: { url: "redis://r" } } }',
      ['1:29: service.limits.redis: has no effect with one node; several nodes need store: { type: postgresql, … }'],
    ],
    ['service: { tls: { cert_file: a } }', ['1:12: service.tls.key_file: is missing; it must be text']],
    ...[
      ['sluice', 'must be a whole address, as in postgresql://USER@HOST:5432/DATABASE'],
      ['postgresql://host/db', 'must be a whole address, as in postgresql://USER@HOST:5432/DATABASE'],
      ['postgresql://u:pa55@host/db', 'must not hold a password; use "password_file"'],
      ['postgresql://u@host/db?sslmode=disable', 'must not have a part after "?" or "#"'],
      ['postgresql://u@host', 'must end with the name of the database, as in postgresql://USER@HOST:5432/DATABASE'],
    ].map(([url, message]): [string, string[]] => [
      `service: { store: { type: postgresql, url: '${url}' } }`,
      [`1:44: service.store.url: ${message}`],
    ]),
    ['service: { limits: { requests: 0 } }', ['1:32: service.limits.requests: must be at least 1']],
  ]
  for (const [text, lines] of cases) {
    let message = ''
    try {
      alone(text)
    } catch (error) {
      message = (error as Error).message
    }
    t.same(
      message.split('\n'),
      lines.map(line => `c.yaml:${line}`),
      text,
    )
  }
})
