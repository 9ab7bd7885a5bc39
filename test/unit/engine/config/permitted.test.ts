import { networkInterfaces } from 'node:os'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { z } from 'zod'
import { components } from '../../../../src/components/list.js'
import { defineProcessor } from '../../../../src/core/component.js'
import { textOptions } from '../../../../src/core/options/reach.js'
import { parseDocument } from '../../../../src/engine/config/load.js'
import type { Permissions } from '../../../../src/engine/config/published/managed-options.js'
import { refusedBy } from '../../../../src/engine/config/published/permissions.js'
import { deliverySchema } from '../../../../src/engine/config/schema.js'
import { AddressRules, parseRule } from '../../../../src/lib/network/address-rules.js'
import { casesOf } from '../../../support/cases.js'
import { madeUp } from '../../../support/made-up.js'

t.test('every option that takes text says what its text names', async t => {
  for (const definition of components) {
    const schemas = [definition.options, ...(definition.kind === 'destination' ? [deliverySchema(definition)] : [])]
    for (const { path, reaches } of schemas.flatMap(schema => textOptions(schema)))
      t.ok(reaches, `${definition.kind} ${definition.type}: ${path.join('.')} needs reaches() of core/options/reach.ts`)
  }
})

const NOTHING: Permissions = { files: [], never: [], urls: [], listen: [], credentials: [] }
const OUT = { type: 'blackhole', inputs: ['in'] }

const PROCESSORS = new Set<unknown>(components.filter(({ kind }) => kind === 'processor').map(({ type }) => type))

function refused(component: object, permitted: Partial<Permissions>): string[] {
  const sections = () => {
    if ('type' in component && PROCESSORS.has(component.type))
      return {
        sources: { in: { type: 'stdin' } },
        processors: { limit: { ...component, inputs: ['in'] } },
        destinations: { out: { ...OUT, inputs: ['limit'] } },
      }
    const isSource = !('url' in component || 'path' in component)
    return isSource
      ? { sources: { in: component }, destinations: { out: OUT } }
      : { sources: { in: { type: 'stdin' } }, destinations: { out: { ...component, inputs: ['in'] } } }
  }
  const document = sections()
  const config = parseDocument(document, 'test', { env: {}, components })
  return refusedBy({ ...NOTHING, ...permitted }, config).map(({ path }) => path.replace(/^\w+\.\w+\./, ''))
}

const send = (url: string) => ({ type: 'http', url })
const share = (url: string) => ({ type: 'throttle', limit: 1, window: '1s', scope: 'cluster', redis: { url } })
const { table } = casesOf<{ table: readonly (readonly [string, object, Partial<Permissions>, readonly string[]])[] }>(
  import.meta.url,
)

t.test('what a configuration from elsewhere may reach', async t => {
  for (const [what, component, permitted, expected] of table) t.same(refused(component, permitted), expected, what)
})

t.test('an option that does not say what it names is refused once it is used', async t => {
  const definition = defineProcessor({
    type: 'new',
    ...madeUp('New.'),
    options: z.strictObject({ program: z.string().optional(), level: z.enum(['a', 'b']).default('a') }),
    create: () => new PassThrough({ objectMode: true }) as never,
  })
  const of = (options: object) =>
    refusedBy(NOTHING, {
      sources: [],
      processors: [{ id: 'x', kind: 'processor', type: 'new', inputs: [], options, definition }],
      destinations: [],
    })
  t.same(of({ level: 'a' }), [])
  t.match(of({ program: '/bin/sh' }), [{ path: 'processors.x.program', message: /cannot be used in a published/ }])
})

t.test('addresses that stand in a configuration', async t => {
  const addresses = new AddressRules(['10.1.0.0/16', '127.0.0.1:9000', '[fd00::/8]:443', '192.168.1.7'], () => [8080])
  const urls = (url: string) => refused(send(url), { urls: 'all', addresses })
  const denied = `127.0.0.1 127.1 2130706433 0x7f.1 0177.0.0.1 localhost LOCALHOST. a.localhost 0.0.0.0 10.0.0.1
    172.16.0.1 172.31.255.255 192.168.1.8 169.254.169.254 100.64.0.1 100.100.100.200 168.63.129.16 198.18.0.1 224.0.0.1
    255.255.255.255 [::] [::1] [::ffff:127.0.0.1] [::ffff:a00:1] [::127.0.0.1] [fe80::1] [fc00::1] [fec0::1] [ff02::1]
    [fd00:ec2::254] [64:ff9b::7f00:1] [64:ff9b::169.254.169.254] [64:ff9b:1::1] [2002:7f00:1::] [2001:0:1::1]
    [2001:db8::1] [100::1] [4000::1] 127.0.0.1:9001 [fd00::1]:444 192.168.1.7:8080`
  const fine = `8.8.8.8 172.32.0.1 100.128.0.1 [2606:4700::1111] [64:ff9b::8.8.8.8] example.com 127.0.0.1:9000
    [::ffff:127.0.0.1]:9000 [fd00::1]:443 10.1.2.3 192.168.1.7:81 8.8.8.8:8080`
  for (const host of denied.split(/\s+/)) t.same(urls(`http://${host}/`), ['url'], `${host} is refused`)
  for (const host of fine.split(/\s+/)) t.same(urls(`http://${host}/`), [], `${host} is allowed`)
  t.same(urls('https://[fd00::1]/'), [], 'the port of https')
  const redis = (host: string) => refused(share(`redis://${host}`), { urls: 'all', addresses })
  for (const host of denied.split(/\s+/)) t.same(redis(host), ['redis.url'], `redis at ${host} is refused`)
  for (const host of fine.split(/\s+/)) t.same(redis(host), [], `redis at ${host} is allowed`)
  const usual = new AddressRules(['127.0.0.1:6379'], () => [])
  t.same(refused(share('redis://127.0.0.1'), { urls: 'all', addresses: usual }), [], 'the port of redis')
  t.same(refused(send('http://127.0.0.1/x'), { urls: ['http://127.0.0.1/'], addresses }), [], 'a URL that is listed')
  for (const { address, internal } of Object.values(networkInterfaces()).flatMap(list => list ?? []))
    if (!internal && !address.startsWith('fe80')) t.ok(new AddressRules([]).denied(address, 80), 'of this machine')
  for (const rule of ['10.0.0.0/33', '10.0.0', 'example.com', '127.0.0.1:0', '127.0.0.1:70000', '[::1', '', ':80'])
    t.notOk(parseRule(rule), `${rule} is no rule`)
  for (const rule of ['::1', '::1/128', '[::1]', '[::1]:80', '::ffff:1', '10.0.0.1']) t.ok(parseRule(rule), rule)
})
