import t from 'tap'
import { components } from '../../../src/components.js'
import { parseDocument } from '../../../src/config/load.js'
import { isRuled, type Permitted, refusedBy } from '../../../src/config/permitted.js'

t.test('of every component it is known what it reaches', async t => {
  for (const { kind, type } of components) t.ok(isRuled(kind, type), `${kind} ${type} is in the table of permitted.ts`)
})

const NOTHING: Permitted = { files: [], urls: [], listen: [], credentials: [] }
const OUT = { type: 'blackhole', inputs: ['in'] }

function refused(component: object, permitted: Partial<Permitted>): string[] {
  const isSource = !('url' in component || 'path' in component)
  const document = isSource
    ? { sources: { in: component }, destinations: { out: OUT } }
    : { sources: { in: { type: 'stdin' } }, destinations: { out: { ...component, inputs: ['in'] } } }
  const config = parseDocument(document, 'test', { env: {}, components })
  return refusedBy({ ...NOTHING, ...permitted }, config).map(({ path }) => path.replace(/^\w+\.\w+\./, ''))
}

const file = (path: string) => ({ type: 'file', path })
const tail = (...include: string[]) => ({ type: 'file', include })
const send = (url: string, more = {}) => ({ type: 'http', url, ...more })

const table: [what: string, component: object, permitted: Partial<Permitted>, refused: string[]][] = [
  ['stdin is whatever was piped in', { type: 'stdin' }, {}, []],
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
  ['everything', file('/etc/passwd'), { files: 'all' }, []],
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
  ['the port', { type: 'tcp', listen: '127.0.0.1:514' }, { listen: ['127.0.0.1:514'] }, []],
]

t.test('what a configuration from elsewhere may reach', async t => {
  for (const [what, component, permitted, expected] of table) t.same(refused(component, permitted), expected, what)
})

t.test('a type that is not known is refused', async t => {
  const strange = { id: 'x', kind: 'processor', type: 'strange', inputs: [], options: {} } as never
  t.match(refusedBy(NOTHING, { sources: [], processors: [strange], destinations: [] }), [{ path: 'processors.x.type' }])
})
