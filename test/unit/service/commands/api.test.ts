import { readFileSync, writeFileSync } from 'node:fs'
import { createServer as createPlainServer } from 'node:http'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { commands } from '../../../../src/cli/commands.js'
import { fetchTrusting } from '../../../../src/daemon/client/fetch-trusting.js'
import { linkTo } from '../../../../src/daemon/fleet/service-link.js'
import type { Io } from '../../../../src/daemon/process/command-line.js'
import { dispatch } from '../../../../src/daemon/process/dispatch.js'
import { AccessKey, auth } from '../../../../src/net/key.js'
import { peopleText } from '../../../../src/service/commands/api-text.js'
import { listening } from '../../../support/address.js'
import { makeCertificates } from '../../../support/certificates.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { startService } from '../../../support/service.js'

/** A command in this process; `columns`: on a terminal so wide. */
async function called(args: readonly string[], env: NodeJS.ProcessEnv, columns?: number) {
  const written = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof written) => ({
    isTTY: columns !== undefined,
    columns,
    write(text: string) {
      written[name] += text
      return true
    },
  })
  const io = { stdin: process.stdin, stdout: stream('stdout'), stderr: stream('stderr'), env } as unknown as Io
  return { code: await dispatch(args, commands, io), ...written }
}

t.test('the service from the command line, for people and for programs', async t => {
  const folder = testFolder(t, { service: {} })
  const service = await startService(join(folder, 'service'))
  t.teardown(() => service.close())
  const env = { SLUICE_URL: service.url, SLUICE_ACCESS_KEY: service.made.manager.key }
  const client = service.client(service.made.manager.key)
  t.equal((await called(['api', 'pipelines'], env, 80)).stdout, 'The list is empty.\n')
  for (const name of [[], ['web']]) {
    const { code, stderr } = await called(['api', 'publish', ...name], env)
    const advised = /create one first, as in: sluice api POST (\S+) --data '(.*)'$/m.exec(stderr)!
    t.equal(code, 1)
    const made = await called(['api', 'POST', advised[1]!, '--data', advised[2]!], env)
    t.equal(made.code, 0, 'as it says')
    await client.pipelines.delete(JSON.parse(made.stdout).data.id)
  }
  const config = { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } } }
  const ids: string[] = []
  for (const title of ['web', 'mobile', 'mobile']) ids.push((await client.pipelines.create({ title, config })).id)

  const table = await called(['api', 'pipelines'], env, 80)
  t.match(table.stdout, /^id +title +revision +published revision/m)
  t.match(table.stdout, new RegExp(`^${ids[0]} +web +1 +-`, 'm'))
  for (const line of table.stdout.split('\n')) t.ok(line.length <= 80, line)
  t.equal(JSON.parse((await called(['api', 'pipelines'], env)).stdout).length, 3, 'JSON in a pipe')
  t.equal(JSON.parse((await called(['api', 'pipelines', '--json'], env, 80)).stdout).length, 3)
  const raw = await called(['api', 'GET', '/v3/pipeline?limit=1'], env, 80)
  t.match(raw.stdout, new RegExp(`^id +title[^]*^${ids[0]} +web[^]*^There are more: add \\?after=`, 'm'))
  t.match(JSON.parse((await called(['api', 'GET', '/v3/pipeline'], env)).stdout), { data: [{}, {}, {}] })
  t.match((await called(['api', 'keys'], env, 120)).stdout, /^id +.*expires at/m)
  t.match((await called(['api', 'service-accounts'], env, 120)).stdout, /^id +title/m)

  const made = await called(
    ['api', 'create-service-account', '--title', 'shippers', '--scopes', 'ingest:write'],
    env,
    80,
  )
  t.match(made.stdout, /^title +shippers$/m)
  const key = /not shown again:\n(\S+)\n$/.exec(made.stdout)?.[1]
  t.ok(key, 'a key on a line of its own')
  t.match(await called(['api', 'validate-key'], { ...env, SLUICE_ACCESS_KEY: key }), { code: 0 })

  const published = await called(['api', 'publish', 'web'], env)
  t.match(JSON.parse(published.stdout), { id: ids[0], published_revision: 1 })
  const unknown = await called(['api', 'publish', 'wab'], env)
  t.match(unknown, { code: 1, stderr: /no pipeline has the id or the title "wab"; did you mean "web"\?/ })
  for (const revision of ['abc', '2.5', '0'])
    t.match(await called(['api', 'publish', 'web', '--revision', revision], env), {
      code: 2,
      stderr:
        /^sluice: --revision must be a whole number of at least 1 in digits, as in 100, not ".*"\nTry: sluice api publish --help/,
    })
  const missing = await called(['api', 'publish'], env)
  t.match(missing, { code: 2, stderr: /ID is missing\. The pipelines are: "web", "mobile", "mobile"/ })
  const two = await called(['api', 'publish', 'mobile'], env)
  t.match(two, { code: 1, stderr: new RegExp(`2 pipelines have the title "mobile".*${ids[1]}, ${ids[2]}`) })
})

t.test('text for people', async t => {
  t.equal(peopleText([{ id: 'a', title: 'x\x1b[2J' }], 80), 'id  title\na   x\\u{1b}[2J\n', 'nothing moves the cursor')
  const narrow = peopleText([{ id: 'a'.repeat(24), title: 'x', created_at: '2031-01-02T03:04:05.678Z' }], 40)
  t.equal(
    narrow,
    `id${' '.repeat(24)}title\n${'a'.repeat(24)}  x\n`,
    'what does not fit is left out, and ids are whole',
  )
  t.equal(
    peopleText({ id: 'a', at: '2031-01-02T03:04:05.678Z', by: { id: 'b' }, none: null, all: ['x', 'y'] }, 80).replace(
      / +/g,
      ' ',
    ),
    'id a\nat 2031-01-02 03:04 UTC\nby id b\nnone -\nall x, y\n',
  )
})

t.test('authorities of the service', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const folder = testFolder(t)
  const certificates = makeCertificates(openssl, folder, ['service'])
  const part = Buffer.alloc(1024 * 1024, ' ')
  const server = createServer(
    { cert: certificates.pem('service.pem'), key: readFileSync(certificates.path('service.key')) },
    (request, response) => {
      let body = ''
      request.on('data', part => (body += part))
      request.on('end', () => {
        if (request.headers['if-none-match']) response.writeHead(304).end()
        else {
          const data = { revision: 3, config: {}, method: request.method, body }
          response.writeHead(200, { etag: '"3"' }).end(JSON.stringify({ data }))
        }
      })
    },
  )
  const port = await listening(t, server, '127.0.0.1')
  const url = `https://127.0.0.1:${port}`
  const env = { SLUICE_ACCESS_KEY: 'x'.repeat(40), SLUICE_URL: url }
  const ca = certificates.path('ca.pem')
  t.intercept(process, 'emitWarning', { value: () => {} })
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
  const args = ['api', 'POST', '/v3/x', '--data', '{"a":1}']
  t.match(await called(args, env).catch(String), {
    code: 1,
    stderr: /cannot reach https:.*certificate is not from an authority that is trusted here; name .* with --ca-file/,
  })
  const other = createPlainServer((request, response) => {
    if (request.url !== '/v3/endless') return void response.end('{}')
    const more = () => {
      while (response.write(part));
    }
    response.on('drain', more).writeHead(200)
    more()
  })
  const plainPort = await listening(t, other, '127.0.0.1')
  for (const [address, reason] of [
    [`https://127.0.0.2:${port}`, /(nothing accepts connections there|certificate is for another name).*\((\w+)\)/],
    [`https://127.0.0.1:${plainPort}`, /it does not speak TLS there; use http:\/\//],
    [`http://127.0.0.1:${port}`, /closed before the answer; does it expect https:\/\/ there\?/],
  ] as const)
    for (const trust of address.startsWith('https:') ? [['--ca-file', certificates.path('ca.pem')], []] : [[]])
      t.match(await called([...args, ...trust, '--url', address], env), { code: 1, stderr: reason })
  const noKey = await called([...args, '--key-file', folder], env)
  t.match(noKey, { code: 1, stderr: /--key-file: .* cannot be read: .*directory/ })
  const answer = await called([...args, '--ca-file', ca], env)
  t.match(JSON.parse(answer.stdout), { data: { method: 'POST', body: '{"a":1}' } }, answer.stderr)
  t.match(await called(args, { ...env, SLUICE_CA_FILE: ca }), { code: 0 })
  // Without TLS, which takes longer for so much than a command waits where the machine has other work.
  const endless = await called(['api', 'POST', '/v3/endless', '--url', `http://127.0.0.1:${plainPort}`], env)
  t.match(endless, { code: 1, stderr: /cannot reach http:.*: its answer is longer than 32\.0 MB/ })
  const wrong = await called([...args, '--ca-file', certificates.path('service.key')], env)
  t.match(wrong, { code: 1, stderr: /--ca-file: .*service\.key holds a private key/ })
  t.match(await called([...args, '--ca-file', join(folder, 'none')], env), {
    code: 1,
    stderr: /--ca-file: .*none cannot be read/,
  })
  const plain = await called([...args, '--ca-file', ca, '--url', 'http://127.0.0.1:1'], env)
  t.match(plain, { code: 2, stderr: /--ca-file has no use with an http/ })

  writeFileSync(join(folder, 'key'), 'x'.repeat(40), { mode: 0o600 })
  const key = new AccessKey(auth.parse({ key_file: join(folder, 'key') }), pino({ enabled: false }))
  const where = { base: url, id: '0123456789abcdef01234567' }
  const link = linkTo(
    where,
    key,
    undefined,
    fetchTrusting(() => certificates.pem('ca.pem')),
  )
  t.match(await link.published(undefined), { revision: 3, etag: '"3"' })
  t.equal(await link.published('"3"'), undefined, 'an answer without a body')
  await t.rejects(linkTo(where, key, undefined).published(undefined), /certificate/)
})
