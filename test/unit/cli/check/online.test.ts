import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkOnline } from '../../../../src/cli/check/online.js'
import { components } from '../../../../src/components/list.js'
import { loadConfig } from '../../../../src/engine/config/load.js'
import { makeCertificates } from '../../../support/certificates.js'
import { command } from '../../../support/cli.js'
import { KEY, receiver } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { startRedis } from '../../../support/redis-server.js'

const BASE = `data_dir: ./data
sources: { app: { type: file, include: [./app.log], decode: json } }
`

/** Runs `sluice validate --online` with these destinations; `parts`: further sections. */
async function online(folder: string, destinations: Record<string, object>, env = {}, parts = BASE) {
  const lines = Object.entries(destinations).map(
    ([id, options]) => `  ${id}: ${JSON.stringify({ inputs: ['app'], buffer: { type: 'memory' }, ...options })}\n`,
  )
  writeFileSync(join(folder, 'app.log'), '')
  writeFileSync(join(folder, 'sluice.yaml'), `${parts}destinations:\n${lines.join('')}`)
  return await command(['validate', '--online', 'sluice.yaml'], { cwd: folder, env })
}

t.test('each destination has its line, and exit code 1 says that one fails', async t => {
  const [to, secured] = [await receiver(t), await receiver(t, { authorization: `Bearer ${KEY}` })]
  secured.otherwise = ({ path }) => (path.startsWith('/loki/') ? 204 : 200)
  const gone = await receiver(t)
  const away = gone.url()
  await gone.close()
  const folder = testFolder(t, { key: KEY, wrong: 'wrong-key-9876', password: 'wrong-key-9876' })
  const loki = (options: object) => ({ type: 'loki', url: secured.url(''), labels: { job: 'a' }, ...options })
  const http = (options: object) => ({ type: 'http', url: secured.url(), ...options })
  const keyed = (key_file: string) => ({ auth: { type: 'bearer', key_file } })
  const validate = secured.url('/v3/pipeline')
  const { code, stdout, stderr } = await online(
    folder,
    {
      open: http({ url: to.url() }),
      right: http({ auth: { type: 'bearer', key: '${SECRET}' }, validate }),
      wrong: http({ ...keyed('./wrong'), validate }),
      user: http({ auth: { type: 'basic', username: 'a', password_file: './password' }, validate }),
      away: http({ url: away }),
      pushes: loki(keyed('./key')),
      refused: loki(keyed('./wrong')),
      nowhere: loki({ ...keyed('./none'), tenant: 'a' }),
      by_default: loki({ ...keyed('./key'), tenant: 'team-${.team:-shared}' }),
      by_field: loki({ ...keyed('./wrong'), tenant: 'team-${.team}' }),
      out: { type: 'blackhole' },
    },
    { SECRET: KEY },
  )
  t.equal(code, 1)
  t.same(stdout.split('\n').slice(1), [
    'sluice.yaml: destinations.open: ok (connects, but did not check whether it accepts requests: set "validate" to a URL that answers HEAD with 200)',
    'sluice.yaml: destinations.right: ok (accepts the key)',
    'sluice.yaml: destinations.pushes: ok (accepts requests)',
    'sluice.yaml: destinations.by_default: ok (accepts requests)',
    'sluice.yaml: destinations.by_field: ok (connects, but did not check whether it accepts requests: .team has no default, so a test request has no value for it)',
    '5 errors, 1 warning',
    '',
  ])
  const problems = stderr.split('\n').filter(line => line !== '' && !line.includes('warning'))
  t.match(problems, [
    /^sluice\.yaml:6:3: destinations\.wrong: 401 from HEAD .*\/v3\/pipeline; the access key was refused: put another in \.\/wrong, which is read again automatically$/,
    /destinations\.user: 401 from HEAD .*; the user or the password was refused: put another in \.\/password, which is read again automatically$/,
    /destinations\.away: http:.* nothing accepts connections there \(ECONNREFUSED\)$/,
    /destinations\.refused: 401 from POST .*\/loki\/api\/v1\/push; the access key was refused: put another in \.\/wrong/,
    /destinations\.nowhere: no access key from \.\/none: the file does not exist; put the key there$/,
  ])
  t.notMatch(stdout + stderr, /c0ffee|wrong-key/)
  t.same(to.requests, [], 'without a URL that checks the key, nothing is sent')
  const bodies = secured.requests.filter(({ method }) => method === 'POST').map(({ body }) => body)
  // Protobuf without a field, in snappy: the length of nothing.
  t.same(new Set(bodies), new Set(['\0']), 'and no event')
  t.ok(secured.requests.some(({ headers }) => headers['x-scope-orgid'] === 'team-shared'))

  const good = await online(folder, { open: http({ url: to.url() }), pushes: loki(keyed('./key')) })
  t.match(good, { code: 0, stderr: '', stdout: /0 errors, 0 warnings\n$/ })
  await online(folder, {
    a: http({ auth: { type: 'basic', username: 'a', password: KEY } }),
    b: http({ auth: { exec: ['printf', KEY] } }),
  })
  for (const args of [['explain', '--json'], ['graph'], ['validate', '--online']]) {
    const { stdout, stderr } = await command([...args, 'sluice.yaml', ...(args[0] === 'explain' ? ['{}'] : [])], {
      cwd: folder,
    })
    t.ok(/app|ok/.test(stdout), args.join(' '))
    t.notMatch(stdout + stderr, KEY)
  }
  await online(folder, { open: http({ url: to.url() }) })
  const offline = await command(['validate', 'sluice.yaml'], { cwd: folder })
  t.match(offline, { code: 0, stdout: /^sluice\.yaml: ok [^\n]*\n0 errors, 0 warnings\n$/ })
})

t.test('what Loki and Elasticsearch answer to a request without events', async t => {
  const to = await receiver(t)
  const folder = testFolder(t)
  const loki = { type: 'loki', url: to.url(''), labels: { job: 'a' } }
  const elasticsearch = { type: 'elasticsearch', url: to.url(''), index: 'a' }
  const ok = /ok \(accepts requests\)/
  const page = /: 200 from POST .*: <h1>Log in<\/h1>; the answer is not from a receiver .*right address\?\n/
  const table: [options: object, status: number, body: string, found: RegExp][] = [
    [loki, 204, '', ok],
    [loki, 422, 'error at least one valid stream is required for ingestion', ok],
    [loki, 200, '<h1>Log in</h1>', page],
    [loki, 401, 'no org id', /: 401 from POST .*: no org id; this Loki requires a tenant: set "tenant"\n/],
    [loki, 404, '404 page not found', /there is nothing at this address\n/],
    [loki, 503, 'not ready', /: 503 from POST .*: not ready\n/],
    [elasticsearch, 400, '{"error":{"reason":"Validation Failed: 1: no requests added;"}}', ok],
    [elasticsearch, 200, '{"took":0,"errors":false}', ok],
    [elasticsearch, 200, '<h1>Log in</h1>', page],
  ]
  for (const [options, status, body, found] of table) {
    to.otherwise = ({ method }) => (method === 'POST' ? { status, ...(body && { body }) } : 404)
    const { code, stdout, stderr } = await online(folder, { out: options })
    t.match([code, stdout + stderr], [found === ok ? 0 : 1, found], `${status} ${body}`)
  }
})

t.test('certificates are verified', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const folder = testFolder(t)
  const certificates = makeCertificates(openssl, folder, ['server'])
  const to = await receiver(t, { tls: { cert: certificates.pem('server.pem'), key: certificates.pem('server.key') } })
  const { code, stdout, stderr } = await online(folder, {
    known: { type: 'http', url: to.url(), tls: { ca_file: './ca.pem' } },
    unknown: { type: 'http', url: to.url() },
  })
  t.equal(code, 1)
  t.match(stdout, /destinations\.known: ok \(connects, but /)
  t.match(stderr, /destinations\.unknown: .*name its certificate in tls\.ca_file/)
})

t.test('a receiver that does not answer', async t => {
  const to = await receiver(t)
  to.otherwise = { hang: 'before_body' }
  const folder = testFolder(t)
  await online(folder, {})
  const path = join(folder, 'sluice.yaml')
  const loki = { type: 'loki', inputs: ['app'], url: to.url(''), labels: { job: 'a' } }
  writeFileSync(path, `${BASE}destinations: ${JSON.stringify({ loki })}\n`)
  const config = loadConfig(path, { env: {}, components })
  const late = {
    isProblem: true,
    line: /destinations\.loki: no answer within 50ms; check the address and the network$/,
  }
  t.match(await checkOnline(path, config, 50), [late])
  const [destination] = config.destinations
  const deaf = { ...destination!.definition, check: () => new Promise<undefined>(() => {}) }
  const destinations = [{ ...destination!, definition: deaf }]
  t.match(await checkOnline(path, { ...config, destinations }, 50), [late], 'nor does its check')
})

t.test('servers that sources and cluster limits need', async t => {
  const folder = testFolder(t, { password: 'right-password', wrong: 'wrong-password' })
  const server = await startRedis(t, folder, ['--requirepass', 'right-password'])
  if (!server) return
  const parts = (file: string) => `data_dir: ./data
sources: { app: { type: redis, url: "${server.url}", password_file: ./${file}, stream: logs, decode: json } }
processors:
  limit: { type: throttle, inputs: [app], limit: 1, window: 1s, scope: cluster, expected_members: 1, redis: { url: "${server.url}", password_file: ./${file}, timeout: 60s } }
`
  const out = { out: { type: 'blackhole', inputs: ['limit'] } }
  const good = await online(folder, out, {}, parts('password'))
  t.match(good, { code: 0, stderr: '' })
  t.match(
    good.stdout,
    /sources\.app: ok \(the stream does not exist yet\)\n.*processors\.limit: ok \(the server of the cluster limit replies\)\n/,
  )
  const bad = await online(folder, out, {}, parts('wrong'))
  t.equal(bad.code, 1)
  t.match(
    bad.stderr,
    /sources\.app: the user name or the password is wrong; .*\n.*processors\.limit: redis: the user name or the password is wrong/,
  )
  t.notMatch(bad.stdout + bad.stderr, /right-password|wrong-password/)
})

t.test('the server of the rate limits of a service', async t => {
  const folder = testFolder(t, { password: 'right-password', wrong: 'wrong-password', broken: 'not a certificate' })
  const server = await startRedis(t, folder, ['--requirepass', 'right-password'])
  if (!server) return
  const validate = async (redis: object) => {
    const store = { type: 'postgresql', url: 'postgresql://sluice@127.0.0.1/sluice' }
    const config = { service: { data_dir: './data', store, limits: { redis: { timeout: '60s', ...redis } } } }
    writeFileSync(join(folder, 'sluice.yaml'), JSON.stringify(config))
    return await command(['validate', '--online', 'sluice.yaml'], { cwd: folder })
  }
  const good = await validate({ url: server.url, password_file: './password' })
  t.match(good, { code: 0, stdout: /service\.limits\.redis: ok \(the server of the rate limits replies\)\n/ })
  const bad = await validate({ url: server.url, password_file: './wrong' })
  t.match(bad, { code: 1, stderr: /service\.limits\.redis: the user name or the password is wrong/ })
  t.notMatch(bad.stdout + bad.stderr, /right-password|wrong-password/)
  const broken = await validate({ url: server.url.replace('redis:', 'rediss:'), ca_file: './broken' })
  t.match(broken.stderr, /^sluice\.yaml:1:\d+: service\.limits\.redis\.ca_file: .*broken\) holds no PEM block/)
  t.equal(broken.code, 78)
})
