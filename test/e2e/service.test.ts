import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { Client } from '../../src/daemon/client/client.js'
import { HOST, listening, ownPort } from '../support/address.js'
import { makeCertificates } from '../support/certificates.js'
import { sluiceMain } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { fileText } from '../support/file-text.js'
import { testFolder } from '../support/folder.js'
import { longTest } from '../support/long-test.js'
import { needs } from '../support/needs.js'
import { parsedLines } from '../support/parsed-lines.js'
import { startReceiver } from '../support/receiver.js'
import { init, serve, stop } from '../support/served.js'
import { pipelineConfig, send } from '../support/service.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

/** The real program: serve, admin, api, and what curl shows of it. */

/** Runs a command to its end. */
function call(file: string, args: readonly string[], env: NodeJS.ProcessEnv = {}, cwd?: string) {
  return new Promise<{ code: number; stdout: string; stderr: string }>(resolve => {
    const all = { ...process.env, SLUICE_URL: undefined, SLUICE_ACCESS_KEY: undefined, ...env }
    execFile(file, args, { env: all, encoding: 'utf8', ...(cwd ? { cwd } : {}) }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
    )
  })
}
const run = (args: readonly string[], env?: NodeJS.ProcessEnv, cwd?: string) =>
  call(process.execPath, [sluiceMain, ...args], env, cwd)

t.test('init, before and while it runs; once', async t => {
  // A path that is too long for a socket.
  const folder = join(testFolder(t, { ['d'.repeat(120)]: {} }), 'd'.repeat(120))
  const { running, url, config, state } = await serve(t, folder)
  await running.until(() => running.stderr.includes('run sluice admin init'))
  const wrong = await command(['admin', 'init', '--config', config, '--email', 'nobody'])
  t.match(wrong, { code: 1, stdout: '', stderr: /^sluice: \S*[eE]mail\S* must be an e-mail address\n$/ })
  const made = await init(t, config)
  t.match(made, {
    enterprise: { id: /^[0-9a-f]{24}$/ },
    account: { id: /^[0-9a-f]{24}$/, short_id: /^\S{9}$/ },
    manager: { id: /^[0-9a-f]{24}$/, email: /@/, key: /^sta_[0-9a-f]{40}$/ },
    service_account: { id: /^[0-9a-f]{24}$/, key: /^sts_[0-9a-f]{40}$/ },
    enterprise_service_account: { id: /^[0-9a-f]{24}$/, key: /^ste_[0-9a-f]{40}$/ },
  })
  t.equal((await send(url, 'GET', '/v3/pipeline', { key: made.service_account.key })).status, 200)
  const again = await command(['admin', 'init', '--config', config, '--json'])
  t.match(again, { code: 1, stdout: '', stderr: /^sluice: .*already/ })
  const second = await run(['serve', '--config', config])
  t.match(second, { code: 1, stderr: /another process|in use/ }, 'one process for a store')

  const copy = join(folder, 'copy')
  const kept = join('ingest', '0123456789abcdef01234567')
  mkdirSync(join(state, kept), { recursive: true })
  writeFileSync(join(state, kept, 'kept'), 'x')
  t.match(await command(['admin', 'backup', '--config', config, '--to', copy]), { code: 0 }, 'while it runs')
  t.match(await command(['admin', 'restore', '--config', config, '--from', copy]), {
    code: 1,
    stderr: /in use by another/,
  })
  await stop(t, running)

  const other = join(folder, 'other.yaml')
  writeFileSync(other, `service: { data_dir: ${join(folder, 'other')}, listen: '127.0.0.1:0' }\n`)
  t.match(await command(['admin', 'restore', '--config', other, '--from', copy]), { code: 0 })
  t.equal(readFileSync(join(folder, 'other', kept, 'kept'), 'utf8'), 'x', 'with what pipelines keep')
  t.match(await command(['admin', 'init', '--config', other]), { code: 1, stderr: /already/ }, 'it is the same one')
  const fresh = join(folder, 'fresh.yaml')
  writeFileSync(fresh, `service: { data_dir: ${join(folder, 'fresh')} }\n`)
  t.match(await init(t, fresh), { manager: { key: /^sta_/ } }, 'without a service')
})

longTest('what is not there to be served', async t => {
  const folder = testFolder(t, {
    'none.yaml':
      'metrics: false\nsources: { in: { type: stdin } }\ndestinations: { out: { type: blackhole, inputs: [in] } }\n',
    'wrong.yaml': 'service:\n  lissten: 127.0.0.1:0\n',
    'daemon.yaml': 'service: {}\n',
    'tls.yaml': 'service: { data_dir: state, tls: { cert_file: none.yaml, key_file: none.key } }\n',
  })
  t.match(await run(['serve', '--config', join(folder, 'none.yaml')]), {
    code: 78,
    stderr: /none\.yaml:1:1: service: is missing/,
  })
  const tls = await run(['serve', '--config', join(folder, 'tls.yaml')], {}, folder)
  t.equal(tls.code, 78)
  t.match(tls.stderr, /tls\.yaml:1:1: service\.tls\.cert_file: none\.yaml .* holds no PEM block /)
  t.match(tls.stderr, /tls\.yaml:1:1: service\.tls\.key_file: none\.key .* the file does not exist /)
  t.match(await run(['serve', '--config', join(folder, 'wrong.yaml')]), {
    code: 78,
    stderr: /wrong\.yaml:2:3: service\.lissten: unknown option; did you mean "listen"\?/,
  })
  t.match(await command(['validate', join(folder, 'daemon.yaml')]), { code: 0, stdout: /ok \(the service\)/ })
  t.match(await run(['run', '--config', join(folder, 'daemon.yaml')]), { code: 78, stderr: /there is no source/ })
  const port = await listening(t, createServer(), '127.0.0.1')
  writeFileSync(
    join(folder, 'taken.yaml'),
    `metrics: false\nservice: { listen: '127.0.0.1:${port}', data_dir: ${folder}/s }\n`,
  )
  t.match(await run(['serve', '--config', join(folder, 'taken.yaml')]), {
    code: 1,
    stderr: /another program listens there/,
  })
})

t.test('the samples of the specification, by curl', async t => {
  const curl = needs(t, 'curl')
  if (!curl) return
  const { url, config, running } = await serve(t, testFolder(t))
  const made = await init(t, config)
  const names: Record<string, string> = {
    SUBJECT: made.service_account.id,
    ENTERPRISE_SUBJECT: made.enterprise_service_account.id,
    ACCOUNT: made.account.id,
    SHORT: made.account.short_id,
    ENTERPRISE: made.enterprise.id,
  }
  /** A transcript with names for what differs each time. */
  const transcript = async (key: string, ...args: string[]) => {
    const authorization = key && ['-H', `Authorization: Token ${key}`]
    const { stdout, code } = await call(curl, [
      '-sS',
      ...authorization,
      ...args.map(arg => arg.replace('{base_url}', url)),
    ])
    t.equal(code, 0)
    let text = stdout.replaceAll('\r', '')
    for (const [name, value] of Object.entries(names)) text = text.replaceAll(value, `<${name}>`)
    return text
      .replace(/^(x-request-id: )[0-9a-f-]{36}$/gm, '$1<UUID>')
      .replace(/^(date|connection|keep-alive|content-length|ratelimit-\w+):.*\n/gim, '')
      .replace(/"(id|key_id)":"[0-9a-f]{24}"/g, '"$1":"<ID>"')
  }
  const identity = (subject: string, account = true) =>
    [
      'x-request-id: <UUID>',
      `x-auth-subject-id: <${subject}>`,
      `x-auth-subject-email: <${subject}>@service-account.invalid`,
      'x-auth-enterprise-id: <ENTERPRISE>',
      'x-auth-access-type: access',
      ...(account ? ['x-auth-account-id: <ACCOUNT>', 'x-auth-account-short-id: <SHORT>'] : []),
      'content-type: application/json; charset=utf-8',
    ].join('\n')
  const accept = ['-H', 'Accept: application/json']
  const sts = made.service_account.key
  const ste = made.enterprise_service_account.key

  t.equal(
    await transcript(sts, '-I', '{base_url}/v3/pipeline'),
    `HTTP/1.1 200 OK\n${identity('SUBJECT')}\n\n`,
    'quick validation',
  )
  t.equal(
    await transcript(sts, '-i', ...accept, '{base_url}/v3/pipeline'),
    `HTTP/1.1 200 OK\n${identity('SUBJECT')}\n\n{"meta":{"type":"pipeline","page":{"limit":50,"next":null}},"data":[]}`,
  )
  t.equal(
    await transcript(ste, '-i', ...accept, '-H', `x-delegate-account-id: ${made.account.id}`, '{base_url}/v3/pipeline'),
    `HTTP/1.1 200 OK\n${identity('ENTERPRISE_SUBJECT')}\n\n{"meta":{"type":"pipeline","page":{"limit":50,"next":null}},"data":[]}`,
    'delegated',
  )
  t.match(
    await transcript(ste, '-i', ...accept, '{base_url}/v3/enterprise/account'),
    `HTTP/1.1 200 OK\n${identity('ENTERPRISE_SUBJECT', false)}\n\n{"meta":{"type":"account","page":{"limit":50,"next":null}},"data":[{"id":"<ACCOUNT>","short_id":"<SHORT>",`,
  )
  t.match(
    await transcript(sts, '-i', ...accept, '{base_url}/v3/auth/token'),
    `HTTP/1.1 200 OK\n${identity('SUBJECT')}\n\n{"meta":{"type":"token"},"data":{"type":"service_account","subject":{"id":"<SUBJECT>",`,
  )
  const invalid =
    /^HTTP\/1\.1 401 Unauthorized\nx-request-id: <UUID>\n(?=[\s\S]*www-authenticate: Token)[\s\S]*\n\n\{"code":"token_unknown",/
  t.match(await transcript(`sts_${'0'.repeat(40)}`, '-i', '{base_url}/v3/pipeline'), invalid)
  t.match(await transcript('', '-I', '{base_url}/v3/pipeline'), /^HTTP\/1\.1 401 Unauthorized\nx-request-id: <UUID>\n/)
  t.match(
    await transcript(sts, '-i', '{base_url}/v3/enterprise/account'),
    /^HTTP\/1\.1 403 Forbidden\n[\s\S]*"code":"\w+"/,
  )
  t.match(await transcript(sts, '-i', '{base_url}/v3/nothing'), /^HTTP\/1\.1 404 Not Found\n[\s\S]*"code":"not_found"/)
  await stop(t, running)
})

t.test('sluice api', async t => {
  const folder = testFolder(t)
  const { url, config, running } = await serve(t, folder)
  const made = await init(t, config)
  const manager = { SLUICE_URL: url, SLUICE_ACCESS_KEY: made.manager.key }
  const sender = { SLUICE_URL: url, SLUICE_ACCESS_KEY: made.service_account.key }
  const api = async (args: string[], env: NodeJS.ProcessEnv = manager, code = 0) => {
    const got = await command(['api', ...args], { env })
    t.equal(got.code, code, `${args.join(' ')}: ${got.stderr}`)
    return got
  }
  t.match(JSON.parse((await api(['whoami'])).stdout), { type: 'personal', role: 'manager' })
  t.match(JSON.parse((await api(['whoami'], sender)).stdout), { type: 'service_account' })
  t.equal((await api(['validate-key'])).stdout, '{"valid":true}\n')
  t.match(await api(['validate-key'], { ...manager, SLUICE_ACCESS_KEY: `sts_${'0'.repeat(40)}` }, 1), {
    stderr: /^sluice: 401/,
  })
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, `${made.manager.key}\n`)
  await api(['validate-key', '--url', url, '--key-file', keyFile], {})

  const account = JSON.parse(
    (await api(['create-service-account', '--title', 'x', '--scopes', 'ingest:write, pipeline:read'])).stdout,
  )
  t.match(account, { scopes: ['ingest:write', 'pipeline:read'], key: /^sts_/ })
  t.match(JSON.parse((await api(['rotate', account.id, '--grace', '1 Minutes'])).stdout), {
    id: account.id,
    key: /^sts_/,
  })
  t.equal((await api(['revoke', account.id])).stdout, '')

  const data = JSON.stringify({ title: 'p', config: pipelineConfig() })
  const { id } = JSON.parse((await api(['POST', '/v3/pipeline', '--data', data])).stdout).data
  t.match(JSON.parse((await api(['publish', id])).stdout), { published_revision: 1 })
  const file = join(folder, 'pipeline.yaml')
  const yaml =
    'processors: { limit: { type: throttle, inputs: [ingest], limit: 2, window: 1s } }\ndestinations: { out: { type: file, inputs: [limit], path: "${OUT}" } }\n'
  writeFileSync(file, yaml)
  const gate = await api(['publish', id, '--config', file], manager, 1)
  t.match(gate.stderr, /^sluice: 403 feature_not_enabled: .* run: sluice api enable throttle /)
  t.match(JSON.parse((await api(['enable', 'throttle'])).stdout), { features: { throttle: true } })
  const first = await api(['publish', id])
  t.match(JSON.parse(first.stdout), { published_revision: 2 })
  t.match(
    first.stderr,
    /^sluice: published; no daemon has reported yet, and the service cannot run it: .*\. Start a daemon with this pipeline, or correct/,
  )
  t.match(JSON.parse((await api(['publish', id, '--revision', '1'])).stdout), { published_revision: 1 })
  const report = { daemon_id: 'd-1', pipeline_id: id, host: 'h', version: '1', revision: 1, health: 'ready' }
  await api(['POST', '/v3/fleet/report', '--data', JSON.stringify(report)])
  t.equal((await api(['publish', id])).stderr, '', 'a daemon may run it')
  const published = JSON.parse((await api(['GET', `/v3/pipeline/${id}/revision/2`])).stdout)
  t.equal(published.data.config.destinations.out.path, '${OUT}', 'variables are left alone')

  const head = await api(['HEAD', '/v3/pipeline', '--include'])
  t.match(head.stdout, /^200\n[\s\S]*x-auth-subject-id: [0-9a-f]{24}\n/)
  const wide = { SLUICE_URL: url, SLUICE_ACCESS_KEY: made.enterprise_service_account.key }
  t.match((await api(['GET', '/v3/account', '--delegate', made.account.id], wide)).stdout, made.account.id)
  const refused = await api(['GET', '/v3/audit'], sender, 1)
  t.match(JSON.parse(refused.stdout), { code: /./, errors: [] })
  t.match(refused.stderr, /^sluice: 403 .* \(request [0-9a-f-]{36}\)\n/)
  t.match(await api(['POST', '/v3/pipeline', '--data', '{}'], manager, 1), { stderr: /\n {2}title: is missing/ })
  const only = (what: string, base: string) => new RegExp(`${what} the address of the service: ${base}\\n`)
  for (const [args, env, text] of [
    [['GET', '/v3/pipeline'], { SLUICE_ACCESS_KEY: 'x' }, /Set SLUICE_URL/],
    [['GET', '/v3/pipeline'], { SLUICE_URL: url }, /set SLUICE_ACCESS_KEY/],
    [['GET', 'v3/pipeline'], manager, /begins with a slash/],
    [
      ['whoami'],
      { ...sender, SLUICE_URL: `${url}/v3/ingest/abc` },
      only(`SLUICE_URL must be only`, `SLUICE_URL=${url}`),
    ],
    [['whoami', '--url', `${url}/a/v3?b`], manager, only('--url must be only', `--url ${url}/a`)],
    [['whoami', '--url', 'localhost:8080'], manager, /--url must be the address of a service, as in --url http:/],
    [['FETCH', '/v3/pipeline'], manager, /FETCH is not a method/],
    [['GET'], manager, /PATH is missing/],
  ] as const) {
    t.match((await api([...args], env, 2)).stderr, text)
  }
  const nobody = `http://${HOST}:${await ownPort()}`
  t.match(await api(['whoami'], { ...manager, SLUICE_URL: nobody }, 1), {
    stderr: /cannot reach .*ECONNREFUSED/,
  })
  const metrics = await fetch(/"url":"([^"]+\/metrics)"/.exec(running.stderr)![1]!)
  const text = await metrics.text()
  t.match(text, /^sluice_api_requests_total\{method="POST",route="\/v3\/pipeline",status="201"\} 1$/m)
  t.match(text, /^sluice_api_authenticated_total \d+$/m)
  t.equal((await fetch(metrics.url.replace('metrics', 'readyz'))).status, 200)
  await stop(t, running)
})

longTest('a key of the service gives neither its files nor its network', async t => {
  const folder = testFolder(t)
  const { url, config, state, running } = await serve(t, folder)
  const made = await init(t, config)
  const client = new Client({ url, key: made.service_account.key, retries: 0 })
  const secret = readFileSync(join(state, 'secret'))
  const scrape = /"url":"([^"]+\/metrics)"/.exec(running.stderr)![1]!
  for (const [out, why] of [
    [{ type: 'file', path: join(state, 'secret') }, /in the folder where this process keeps its state/],
    [{ type: 'file', path: join(folder, 'x') }, /not among the files/],
    [{ type: 'http', url: 'http://8.8.8.8', auth: { key_file: config } }, /auth\.key_file: .* not among the files/],
    [
      { type: 'http', url: 'http://169.254.169.254/latest' },
      /must not send to 169\.254\.169\.254, which is a link-local/,
    ],
    [{ type: 'http', url: 'http://localhost:9' }, /127\.0\.0\.1, which is a loopback address/],
    [{ type: 'http', url: scrape }, /a loopback address, where this service itself listens/],
  ] as const) {
    const { id } = await client.pipelines.create({
      title: 'x',
      config: { destinations: { out: { ...out, inputs: ['ingest'] } } },
    })
    await client.pipelines.publish(id)
    const answer = await fetch(`${url}/v3/ingest/${id}`, {
      method: 'POST',
      body: '{}\n',
      headers: { authorization: `Token ${made.service_account.key}`, 'content-type': 'application/x-ndjson' },
    })
    t.match({ status: answer.status, text: await answer.text() }, { status: 503, text: why })
  }
  t.same(readFileSync(join(state, 'secret')), secret)
  await stop(t, running)
})

longTest('TLS, and a certificate that the client does not know', async t => {
  const [openssl, curl] = [needs(t, 'openssl'), needs(t, 'curl')]
  if (!openssl || !curl) return
  const folder = testFolder(t)
  const { path } = makeCertificates(openssl, folder, ['service'])
  const { url, config, running } = await serve(
    t,
    folder,
    `  tls: { cert_file: ${path('service.pem')}, key_file: ${path('service.key')} }\n`,
  )
  t.match(url, /^https:/)
  const { manager } = await init(t, config)
  const env = { SLUICE_URL: url, SLUICE_ACCESS_KEY: manager.key }
  t.match(await run(['api', 'whoami'], { ...env, NODE_EXTRA_CA_CERTS: path('ca.pem') }), {
    code: 0,
    stdout: /"manager"/,
  })
  t.match(await run(['api', 'whoami'], env), { code: 1, stderr: /certificate/ })
  const got = await call(curl, [
    '-sS',
    '--cacert',
    path('ca.pem'),
    '-I',
    '-H',
    `Authorization: Token ${manager.key}`,
    `${url}/v3/pipeline`,
  ])
  t.match(got.stdout, /^HTTP\/1\.1 200 OK/)
  // A client that is refused leaves a line and a count; so does what expires.
  const plain = await call(curl, ['-sS', url.replace('https:', 'http:')])
  t.not(plain.code, 0)
  const refused = /"code":"SLUICE_TLS_REFUSED","peer":"127.0.0.1","reason":"plain_http"/
  await running.until(() => refused.test(running.stderr))
  const metrics = await (await fetch(/"url":"([^"]+\/metrics)"/.exec(running.stderr)![1]!)).text()
  t.match(metrics, /^sluice_tls_refused_connections_total\{reason="plain_http"\} 1$/m)
  t.match(
    metrics,
    /^sluice_tls_certificate_expiry_timestamp_seconds\{option="cert_file",file=".*service.pem"\} 1\d{9}$/m,
  )
  await stop(t, running)
})

longTest('a pipeline that writes to standard output does not run in the service, and cannot end it', async t => {
  const { running, url, config } = await serve(t, testFolder(t))
  running.child.stdout!.destroy()
  const { key } = (await init(t, config)).manager
  const out = { type: 'stdout', inputs: ['ingest'] }
  const made = await send(url, 'POST', '/v3/pipeline', {
    key,
    json: { title: 'x', config: { destinations: { out } } },
  })
  const { id } = made.body.data
  t.equal((await send(url, 'POST', `/v3/pipeline/${id}/publish`, { key, json: {} })).status, 200)
  for (let i = 0; i < 2; i++) {
    const json = Array.from({ length: 1000 }, (_, n) => ({ n }))
    t.match(await send(url, 'POST', `/v3/ingest/${id}`, { key, json }), {
      status: 503,
      body: {
        code: 'pipeline_cannot_run',
        message: /destinations\.out\.type: pipelines cannot write to the standard output .* another destination/,
      },
    })
  }
  t.equal((await send(url, 'GET', '/v3/auth/token', { key })).status, 200)
  await stop(t, running)
})

t.test('events of a key that is revoked while they arrive are not taken', async t => {
  const { url, config, running } = await serve(t, testFolder(t))
  const { manager, service_account } = await init(t, config)
  const ask = (method: string, path: string, json?: unknown) => send(url, method, path, { key: manager.key, json })
  const { id } = (await ask('POST', '/v3/pipeline', { title: 'p', config: pipelineConfig() })).body.data
  await ask('POST', `/v3/pipeline/${id}/publish`)
  const { key } = service_account
  t.equal((await send(url, 'POST', `/v3/ingest/${id}`, { key, json: [{ n: 1 }] })).status, 202)
  const sent = request(`${url}/v3/ingest/${id}`, {
    method: 'POST',
    headers: { authorization: `Token ${key}`, 'content-type': 'application/json', expect: '100-continue' },
  })
  const answer = once(sent, 'response')
  sent.flushHeaders()
  // The service knows the key, and has looked at it by then.
  await once(sent, 'continue')
  sent.write('[{"n":2}')
  t.equal((await ask('DELETE', `/v3/service-account/${service_account.id}/key`)).status, 204)
  sent.end(']')
  const [response] = await answer
  t.equal(response.statusCode, 401)
  t.match(await text(response), /"code":"token_revoked"/)
  await stop(t, running)
})

t.test('without its feature a pipeline is not used: daemons wait, and continue once it is enabled', async t => {
  const folder = testFolder(t, { in: { 'a.log': '' } })
  const path = (name: string) => join(folder, name)
  const { running, url, config } = await serve(t, folder, `  ingest: { allow_files: ['${path('out.ndjson')}'] }\n`)
  const { manager, service_account: sender } = await init(t, config)
  writeFileSync(path('key'), sender.key, { mode: 0o600 })
  const ask = (method: string, path: string, json?: unknown) => send(url, method, path, { key: manager.key, json })
  const env = { SLUICE_URL: url, SLUICE_ACCESS_KEY: manager.key }
  const api = async (...args: string[]) => JSON.parse((await command(['api', ...args], { env })).stdout)
  t.match(await api('enable', 'throttle'), { features: { throttle: true }, stopped_pipelines: [] })
  const lim = { type: 'throttle', inputs: ['ingest'], limit: 9, window: '1 Hours' }
  const make = async (title: string, out: object, processors: object) => {
    const json = { title, config: { processors, destinations: { out } } }
    const { id } = (await ask('POST', '/v3/pipeline', json)).body.data
    t.equal((await ask('POST', `/v3/pipeline/${id}/publish`)).status, 200)
    return id
  }
  const files = { type: 'file', inputs: ['lim'], path: path('out.ndjson') }
  const hosted = await make('hosted', files, { lim })
  const managed = await make('managed', { type: 'blackhole', inputs: ['lim'] }, { lim })
  const plain = await make('plain', { type: 'blackhole', inputs: ['ingest'] }, {})
  const upstream = `{ type: http, inputs: [app], url: '${url}/v3/ingest/${hosted}', auth: { key_file: key } }`
  const sources = `sources: { app: { type: file, include: [in/a.log], decode: json } }\n`
  writeFileSync(
    path('sends.yaml'),
    `data_dir: sends\nmetrics: false\n${sources}destinations: { upstream: ${upstream} }\n`,
  )
  writeFileSync(path('local.yaml'), `data_dir: local\nmetrics: false\n${sources}`)
  const sending = sluice(['run', '--config', 'sends.yaml'], { cwd: folder })
  t.teardown(() => sending.child.kill('SIGKILL'))
  const arrived = (n: number) => parsedLines(fileText(path('out.ndjson'))).some(event => event.n === n)
  const write = (n: number) => writeFileSync(path('in/a.log'), `{"n":${n}}\n`, { flag: 'a' })
  write(1)
  await sending.until(() => arrived(1))

  const using = [hosted, managed].map(id => ({ id, title: id === hosted ? 'hosted' : 'managed' }))
  t.match(await api('disable', 'throttle'), { features: { throttle: false }, stopped_pipelines: using })
  t.match(await api('GET', '/v3/account/feature/throttle'), {
    meta: { type: 'feature' },
    data: { name: 'throttle', enabled: false, pipelines: using },
  })
  const post = (id: string) => send(url, 'POST', `/v3/ingest/${id}`, { key: sender.key, json: [{ n: 0 }] })
  const refused = { status: 403, body: { code: 'feature_not_enabled', message: /run: sluice api enable throttle/ } }
  t.match(await post(hosted), refused)
  t.match(await ask('GET', `/v3/pipeline/${managed}/published`), refused)
  t.equal((await post(plain)).status, 202)
  write(2)
  const held = await sending.until(() => /"error":"(403 .*?)","msg":"the destination is paused/.exec(sending.stderr))
  t.match(held![1], /feature_not_enabled/)
  t.notMatch(held![1], /access key/, 'another key would not help')
  const args = ['--pipeline', `${url}/v3/pipeline/${managed}`, '--key-file', 'key', '--config', 'local.yaml']
  const waiting = sluice(['run', ...args], { cwd: folder })
  t.teardown(() => waiting.child.kill('SIGKILL'))
  await waiting.until(() => /enable throttle.*the service did not send the pipeline; trying again/.test(waiting.stderr))

  t.match(await api('enable', 'throttle'), { features: { throttle: true }, stopped_pipelines: [] })
  await sending.until(() => arrived(2))
  await waiting.until(() => waiting.stderr.includes('starting with a published revision'))
  t.notOk(arrived(0))
  for (const one of [sending, waiting, running]) await stop(t, one)
})

longTest('a pipeline uses secrets of its account by name', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const folder = testFolder(t, { value: 'first-value\n' })
  const more = `  ingest: { allow_addresses: ['${HOST}'] }\n`
  const { running, url, config, state } = await serve(t, folder, more)
  const { key } = (await init(t, config)).manager
  const ask = (method: string, path: string, json?: object) => send(url, method, path, { key, json })
  const env = { SLUICE_URL: url, SLUICE_ACCESS_KEY: key }
  const set = await command(['api', 'set-secret', 'upstream', '--file', join(folder, 'value')], { env })
  t.match(set, { code: 0, stdout: /"name":"upstream"/ })
  const out = {
    type: 'http',
    inputs: ['ingest'],
    url: receiver.url(),
    batch: { max_wait: '1 Milliseconds' },
    auth: { key: '${secret:upstream}' },
    headers: { 'x-api-key': 'Key ${secret:upstream}' },
  }
  const made = await ask('POST', '/v3/pipeline', { title: 'x', config: { destinations: { out } } })
  t.equal(made.status, 201, made.text)
  const { id } = made.body.data
  t.equal((await ask('POST', `/v3/pipeline/${id}/publish`, {})).status, 200)
  const post = () => ask('POST', `/v3/ingest/${id}`, [{ n: 1 }])
  const delivered = () => {
    const { authorization, 'x-api-key': other } = receiver.requests.at(-1)!.headers
    return [authorization, other]
  }
  t.equal((await post()).status, 202)
  t.same(delivered(), ['Token first-value', 'Key first-value'])
  t.equal((await ask('PUT', '/v3/secret/upstream', { value: 'second-value' })).status, 200)
  t.equal((await post()).status, 202)
  t.same(delivered(), ['Token second-value', 'Key second-value'], 'another value is used at once')
  t.equal((await ask('DELETE', '/v3/secret/upstream')).status, 204)
  const count = receiver.requests.length
  const refused = await until('the end of the pipeline', async () => {
    const answer = await post()
    return answer.body.code !== 'stopping' && answer
  })
  t.match(refused, {
    status: 503,
    body: { code: 'pipeline_cannot_run', message: /the secret upstream does not exist in the account; save it/ },
  })
  t.equal(receiver.requests.length, count)
  t.same((await ask('GET', `/v3/pipeline/${id}`)).body.data.missing_secrets, ['upstream'])
  t.equal((await ask('PUT', '/v3/secret/upstream', { value: 'third-value' })).status, 200)
  t.equal((await post()).status, 202)
  t.same(delivered(), ['Token third-value', 'Key third-value'])
  const shown = await Promise.all(
    ['/v3/audit', '/v3/secret', `/v3/pipeline/${id}`, `/v3/pipeline/${id}/published`].map(path => ask('GET', path)),
  )
  for (const { status, text } of shown) {
    t.equal(status, 200)
    t.notMatch(text, /(first|second|third)-value/)
  }
  await stop(t, running)
  t.notMatch(running.stderr, /(first|second|third)-value/)
  const files = readdirSync(state, { recursive: true, encoding: 'utf8' }).map(name => join(state, name))
  const texts = files.filter(path => statSync(path).isFile()).map(path => readFileSync(path, 'latin1'))
  t.ok(texts.some(text => text.includes('secret.replace')))
  for (const text of texts) t.notMatch(text, /(first|second|third)-value/, 'no file has it as it is')
})

t.test('an end in order: what is under way is answered', async t => {
  const { url, config, running, state } = await serve(t, testFolder(t))
  const made = await init(t, config)
  const { key } = made.manager
  let acknowledged = 0
  let cut = 0
  const sender = async (n: number) => {
    for (let i = 0; ; i++) {
      const sent = send(url, 'POST', '/v3/service-account', { key, json: { title: `s${n}-${i}` } })
      const got = await sent.catch((error: Error & { cause?: { code?: string } }) => error.cause?.code ?? 'unknown')
      if (typeof got === 'object') {
        if (got.status !== 201) return t.equal(got.status, 201)
        acknowledged++
      } else {
        if (got !== 'ECONNREFUSED') cut++
        return
      }
    }
  }
  const senders = [0, 1, 2, 3].map(sender)
  await running.until(() => acknowledged > 20)
  await stop(t, running)
  await Promise.all(senders)
  t.ok(acknowledged > 20)
  t.ok(cut <= 4, `${cut} connections were closed between two requests`)
  const again = sluice(['serve', '--config', config])
  t.teardown(async () => {
    again.child.kill('SIGKILL')
    await again.exit
  })
  const next = await again.until(() => /"url":"(https?:[^"]+)\/v3"/.exec(again.stderr)?.[1])
  let count = 0
  for (let after: string | null = ''; after !== null; ) {
    const { body } = await send(next, 'GET', `/v3/service-account?limit=100${after && `&after=${after}`}`, { key })
    count += body.data.length
    after = body.meta.page.next
  }
  t.ok(count >= acknowledged + 1, `${count} are there, ${acknowledged} were acknowledged`)
  t.notMatch(readFileSync(join(state, 'secret'), 'utf8'), key)
})

t.test('clients without a whole request do not hold up the end', async t => {
  const { url, running } = await serve(t, testFolder(t), 'shutdown_timeout: 10 Minutes\n')
  const { hostname, port } = new URL(url)
  const head = `POST /v3/service-account HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n`
  const closed: Promise<unknown>[] = []
  for (const sent of ['', head, `${head}\r\n{`]) {
    const socket = connect(Number(port), hostname)
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(sent)
    // It has no key, so it is answered before its body is there.
    if (sent.endsWith('{')) t.match(String(await once(socket, 'data')), /^HTTP\/1.1 401 /)
    closed.push(once(socket.resume(), 'close'))
  }
  await stop(t, running)
  await Promise.all(closed)
})

longTest('it answers before it starts the processes of accounts', async t => {
  const folder = testFolder(t)
  const more = `  ingest: { allow_addresses: ['${HOST}'] }\n`
  const { url, config, running } = await serve(t, folder, more)
  const { key } = (await init(t, config)).manager
  const out = {
    ...{ type: 'http', inputs: ['ingest'], url: `http://${HOST}:${await ownPort()}/`, buffer: { type: 'disk' } },
  }
  const json = { title: 'x', config: { destinations: { out } } }
  const { id } = (await send(url, 'POST', '/v3/pipeline', { key, json })).body.data
  t.equal((await send(url, 'POST', `/v3/pipeline/${id}/publish`, { key, json: {} })).status, 200)
  t.equal((await send(url, 'POST', `/v3/ingest/${id}`, { key, json: [{ n: 1 }] })).status, 202)
  await stop(t, running)
  const again = await serve(t, folder, more)
  await again.running.until(() => again.running.stderr.includes('a published pipeline runs'))
  t.match(again.running.stderr, /"the service is ready"[\s\S]*"started a process for the pipelines of an account"/)
  await stop(t, again.running)
})

longTest('what parse takes from a text is redacted, names too, and nothing of it is in the log', async t => {
  const dir = testFolder(t, {
    'sluice.yaml': `data_dir: ./state
metrics: false
sources: { lines: { type: stdin } }
processors:
  parsed: { type: parse, inputs: [lines], codec: logfmt, types: { pin: int } }
  clean: { type: redact, inputs: [parsed], presets: [email, card], names: true }
destinations: { out: { type: stdout, inputs: [clean] } }
`,
  })
  const running = sluice(['run', '--config', 'sluice.yaml'], { cwd: dir })
  running.child.stdin!.end('a@example.com=1 pin=7\nuser=jane pin=hunter2\nuser=jane pin=4111111111111111x\n')
  t.equal(await running.exit, 0, running.stderr)
  const events = parsedLines<Record<string, unknown>>(running.stdout)
  t.match(events[0], { message: '***=1 pin=7', '***': '1', pin: 7 })
  t.match(events[1]!.processing_error, {
    component: 'parsed',
    message: '.message is not logfmt (.pin should be an integer, and is a text of 7 characters)',
  })
  t.equal(events.length, 3)
  t.notMatch(running.stdout, /example\.com|4111111111111111/)
  t.match(running.stderr, /"component":"parsed".*\.pin should be an integer/)
  t.notMatch(running.stderr, /hunter2|4111111111111111|example\.com/)
})
