import { networkInterfaces } from 'node:os'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { z } from 'zod'
import { components } from '../../../../src/components/list.js'
import { defineProcessor } from '../../../../src/core/component.js'
import { textOptions } from '../../../../src/core/options/reach.js'
import { parseDocument } from '../../../../src/engine/config/load.js'
import { type Permitted, refusedBy } from '../../../../src/engine/config/managed/permitted.js'
import { deliverySchema } from '../../../../src/engine/config/schema.js'
import { AddressRules, parseRule } from '../../../../src/lib/network/address-rules.js'

t.test('every option that takes text says what its text names', async t => {
  for (const definition of components) {
    const schemas = [definition.options, ...(definition.kind === 'destination' ? [deliverySchema(definition)] : [])]
    for (const { path, reaches } of schemas.flatMap(schema => textOptions(schema)))
      t.ok(reaches, `${definition.kind} ${definition.type}: ${path.join('.')} needs reaches() of core/options/reach.ts`)
  }
})

const NOTHING: Permitted = { files: [], never: [], urls: [], listen: [], credentials: [] }
const OUT = { type: 'blackhole', inputs: ['in'] }

const PROCESSORS = new Set<unknown>(components.filter(({ kind }) => kind === 'processor').map(({ type }) => type))

function refused(component: object, permitted: Partial<Permitted>): string[] {
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

const file = (path: string) => ({ type: 'file', path })
const tail = (...include: string[]) => ({ type: 'file', include })
const send = (url: string, more = {}) => ({ type: 'http', url, ...more })

const share = (redis: object) => ({
  type: 'throttle',
  limit: 1,
  window: '1s',
  scope: 'cluster',
  redis: { url: 'redis://10.0.0.1', ...redis },
})
const ALL = { urls: 'all' } as const

const hashed = (key_file: string) => ({
  type: 'edit',
  steps: [{ trim: ['.a'] }, { hash: { fields: ['.a'], key_file } }],
})
const looked = (options: object) => ({ type: 'enrich', target: '.x', ...options })

const run = { type: 'script', code: 'event => event' }

const table: [what: string, component: object, permitted: Partial<Permitted>, refused: string[]][] = [
  ['stdin is whatever was piped in', { type: 'stdin' }, {}, []],
  ['code', run, {}, ['code']],
  ['code that may run', run, { code: true }, []],
  ['code in a file', { type: 'script', file: '/etc/mine.js' }, { files: ['/etc/**'] }, ['file']],
  [
    'a definition of a codec',
    { type: 'stdin', decode: { codec: 'protobuf', message: 'M', descriptor_file: '/etc/a' } },
    {},
    ['decode.descriptor_file'],
  ],
  [
    'one that may be used, and one of an encoding',
    { ...file('/keys/out'), encoding: { codec: 'protobuf', message: 'M', descriptor_file: '/keys/a' } },
    { files: ['/keys/*'] },
    [],
  ],
  [
    'a definition of a parser',
    { type: 'parse', codec: 'protobuf', message: 'M', descriptor_file: '/etc/a' },
    {},
    ['descriptor_file'],
  ],
  ['a key in a step', hashed('/etc/shadow'), {}, ['steps.hash.key_file']],
  ['a key in a step that may be used', hashed('/keys/a'), { files: ['/keys/*'] }, []],
  [
    'a key of redaction',
    { type: 'redact', presets: ['email'], action: { hash: { key_file: '/etc/shadow' } } },
    {},
    ['action.hash.key_file'],
  ],
  ['a table', looked({ table: '/etc/passwd', key_field: '.a', column: 'root' }), {}, ['table']],
  ['facts and the environment', looked({ facts: ['hostname'], environment: ['HOME'] }), {}, ['facts', 'environment']],
  ['a file by its name', tail('/var/log/a.log'), { files: ['/var/log/a.log'] }, []],
  ['another one', tail('/var/log/b.log'), { files: ['/var/log/a.log'] }, ['include']],
  ['a pattern within a pattern', tail('/var/log/app/*.log'), { files: ['/var/log/**'] }, []],
  ['one of two is too much', tail('/var/log/a', '/etc/passwd'), { files: ['/var/log/**'] }, ['include']],
  ['a star is part of a name', tail('/var/log/app/x.log'), { files: ['/var/log/*.log'] }, ['include']],
  ['folders between', file('/data/a/b/c.log'), { files: ['/data/**/*.log'] }, []],
  ['no folder between', file('/data/c.log'), { files: ['/data/**/*.log'] }, []],
  ['a folder beside', file('/data2/c.log'), { files: ['/data/**'] }, ['path']],
  ['a dot is a dot', file('/data/axlog'), { files: ['/data/a.log'] }, ['path']],
  ['the way up', file('/data/../etc/passwd'), { files: ['/data/**'] }, ['path']],
  ['the way up in braces', tail('/data/{a,../etc/passwd}'), { files: ['/data/**'] }, ['include']],
  ['braces', tail('/data/{a,b}'), { files: ['/data/**'] }, ['include']],
  ['the journal of the machine', { type: 'journald' }, { files: ['/var/log/app/**'] }, ['directory']],
  ['the same, permitted', { type: 'journald' }, { files: ['/var/log/journal'] }, []],
  ['another journal', { type: 'journald', files: ['/srv/a.journal'] }, { files: ['/var/log/**'] }, ['files']],
  ['everything', file('/etc/passwd'), { files: ['/**'] }, []],
  ['its state', file('/data/service/secret'), { files: ['/**'], never: ['/data/service'] }, ['path']],
  ['beside its state', file('/data/service2/x'), { files: ['/**'], never: ['/data/service'] }, []],
  ['a header is only text', send('http://a/', { headers: { X: '/etc/passwd' } }), { urls: 'all' }, []],
  ['an address', send('https://a.example/v3/x'), { urls: ['https://a.example/v3'] }, []],
  ['a longer name', send('https://a.example/v33'), { urls: ['https://a.example/v3'] }, ['url']],
  ['a host that begins alike', send('https://a.example.org/'), { urls: ['https://a.example'] }, ['url']],
  ['validate', send('https://a.example/', { validate: 'http://b/' }), { urls: ['https://a.example'] }, ['validate']],
  ['a key file', send('http://a/', { auth: { key_file: '/k' } }), { urls: 'all' }, ['auth.key_file']],
  ['a credential', send('http://a/', { auth: { credential: 'k' } }), { urls: 'all' }, ['auth.credential']],
  [
    'a credential by its name',
    send('http://a/', { auth: { credential: 'k' } }),
    { urls: 'all', credentials: ['k'] },
    [],
  ],
  ['an authority', send('https://a/', { tls: { ca_file: '/ca' } }), { urls: 'all' }, ['tls.ca_file']],
  ['a port', { type: 'tcp', listen: '0.0.0.0:514' }, { listen: ['127.0.0.1:514'] }, ['listen']],
  ['a server of a cluster limit', share({}), {}, ['redis.url']],
  ['the same, permitted', share({}), { urls: ['redis://10.0.0.1'] }, []],
  ['another server', share({ url: 'redis://10.0.0.2' }), { urls: ['redis://10.0.0.1'] }, ['redis.url']],
  ['another port', share({ url: 'redis://10.0.0.1:1' }), { urls: ['redis://10.0.0.1'] }, ['redis.url']],
  ['another protocol', share({ url: 'rediss://10.0.0.1' }), { urls: ['redis://10.0.0.1'] }, ['redis.url']],
  [
    'another node',
    share({ nodes: ['redis://10.0.0.2'], cluster: true }),
    { urls: ['redis://10.0.0.1'] },
    ['redis.nodes'],
  ],
  ['its password file', share({ password_file: '/etc/passwd' }), ALL, ['redis.password_file']],
  ['its credential', share({ credential: 'k' }), ALL, ['redis.credential']],
  [
    'its certificates',
    share({ url: 'rediss://a', ca_file: '/ca', cert_file: '/c', key_file: '/k' }),
    ALL,
    ['redis.ca_file', 'redis.cert_file', 'redis.key_file'],
  ],
  ['the port', { type: 'tcp', listen: '127.0.0.1:514' }, { listen: ['127.0.0.1:514'] }, []],
]

t.test('what a configuration from elsewhere may reach', async t => {
  for (const [what, component, permitted, expected] of table) t.same(refused(component, permitted), expected, what)
})

t.test('an option that does not say what it names is refused once it is used', async t => {
  const definition = defineProcessor({
    type: 'new',
    summary: 'New.',
    options: z.strictObject({ program: z.string().optional(), level: z.enum(['a', 'b']).default('a') }),
    examples: [{ title: '', yaml: '' }],
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
  const redis = (host: string) => refused(share({ url: `redis://${host}` }), { urls: 'all', addresses })
  for (const host of denied.split(/\s+/)) t.same(redis(host), ['redis.url'], `redis at ${host} is refused`)
  for (const host of fine.split(/\s+/)) t.same(redis(host), [], `redis at ${host} is allowed`)
  const usual = new AddressRules(['127.0.0.1:6379'], () => [])
  t.same(refused(share({ url: 'redis://127.0.0.1' }), { urls: 'all', addresses: usual }), [], 'the port of redis')
  t.same(refused(send('http://127.0.0.1/x'), { urls: ['http://127.0.0.1/'], addresses }), [], 'a URL that is listed')
  for (const { address, internal } of Object.values(networkInterfaces()).flatMap(list => list ?? []))
    if (!internal && !address.startsWith('fe80')) t.ok(new AddressRules([]).denied(address, 80), 'of this machine')
  for (const rule of ['10.0.0.0/33', '10.0.0', 'example.com', '127.0.0.1:0', '127.0.0.1:70000', '[::1', '', ':80'])
    t.notOk(parseRule(rule), `${rule} is no rule`)
  for (const rule of ['::1', '::1/128', '[::1]', '[::1]:80', '::ffff:1', '10.0.0.1']) t.ok(parseRule(rule), rule)
})
