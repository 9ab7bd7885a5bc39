import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { validate } from '../../../src/cli/check/validate.js'
import type { FactSample } from '../../../src/core/fact.js'
import { systemClock } from '../../../src/lib/time.js'
import { TlsRefusals } from '../../../src/net/listen.js'
import { expiryFact, TlsFiles } from '../../../src/net/tls.js'
import { inspectTls, type TlsPaths, tlsProblemText } from '../../../src/net/tls-check.js'
import { type Certificates, makeCertificates } from '../../support/certificates.js'
import { problemsIn } from '../../support/facts.js'
import { testFolder } from '../../support/folder.js'
import { needs } from '../../support/needs.js'

const DAY_MS = 86_400_000
const openssl = needs(t, 'openssl')
const folder = testFolder(t, { other: {} })
const files = openssl ? makeCertificates(openssl, folder, ['a', 'b']) : (undefined as unknown as Certificates)
const path = (name: string) => join(folder, name)

/** What each file is, and what is said of it. */
function faults(): [string, TlsPaths, RegExp | undefined][] {
  const run = (...args: string[]) => execFileSync(openssl!, args, { cwd: folder, stdio: 'pipe' })
  const a = { cert_file: path('a.pem'), key_file: path('a.key') }
  const pem = (name: string) => files.pem(name).toString()
  const put = (name: string, text: string | Buffer) => {
    writeFileSync(path(name), text)
    return path(name)
  }
  run('pkey', '-in', 'a.key', '-aes256', '-passout', 'pass:secret', '-out', 'encrypted.key')
  run('x509', '-in', 'a.pem', '-outform', 'der', '-out', 'a.der')
  run(
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-subj',
    '/CN=self',
    '-addext',
    'basicConstraints=CA:FALSE',
    '-keyout',
    'self.key',
    '-out',
    'self.pem',
  )
  const damaged = pem('a.pem').replace(/^[A-Za-z0-9+/]{40}/m, 'A'.repeat(40))
  return [
    ['good', a, undefined],
    ['good authorities', { ca_file: path('ca.pem'), client_ca_file: path('ca.pem') }, undefined],
    ['a certificate that signed itself', { ca_file: path('self.pem') }, undefined],
    [
      'text around it',
      { ca_file: put('bundle.pem', `A comment\n${pem('ca.pem')}\n# another\n${pem('self.pem')}`) },
      undefined,
    ],
    [
      'absent',
      { ca_file: path('none.pem') },
      /^tls.ca_file: \/.*none.pem cannot be read: the file does not exist \(ENOENT\)$/,
    ],
    ['a folder', { ca_file: folder }, /is a folder; name a PEM file$/],
    ['empty', { ca_file: put('empty.pem', '') }, /empty.pem is empty; put the PEM text in it$/],
    ['white space', { client_ca_file: put('blank.pem', ' \n') }, /^tls.client_ca_file: .*blank.pem is empty/],
    ['no PEM', { ca_file: put('text.pem', 'hello\n') }, /holds no PEM block "-----BEGIN CERTIFICATE-----"$/],
    ['DER', { ca_file: path('a.der') }, /is not PEM but DER; convert it with "openssl x509 -inform der"/],
    [
      'cut off',
      { ca_file: put('cut.pem', pem('ca.pem').slice(0, 200)) },
      /is cut off: a certificate in it has no END line/,
    ],
    ['damaged', { ca_file: put('damaged.pem', damaged) }, /holds a damaged certificate/],
    [
      'one damaged',
      { ca_file: put('second.pem', `${pem('ca.pem')}${damaged}`) },
      /holds certificates, and number 2 is damaged/,
    ],
    [
      'no authority',
      { ca_file: path('a.pem') },
      /holds no certificate of an authority: a is not a CA; use the certificate of its issuer, Test CA$/,
    ],
    [
      'swapped',
      { cert_file: path('a.key'), key_file: path('a.pem') },
      /^tls.cert_file: .*a.key holds a private key and no certificate; are cert_file and key_file swapped\?\|tls.key_file: .*a.pem holds a certificate and no private key/,
    ],
    ['a request', { ...a, cert_file: path('a.csr') }, /holds a request for a certificate; name the certificate/],
    [
      'another key',
      { ...a, key_file: path('b.key') },
      /^tls.key_file: .*b.key does not belong to the certificate in .*a.pem \(a\)/,
    ],
    [
      'a passphrase',
      { ...a, key_file: path('encrypted.key') },
      /encrypted.key holds a key with a passphrase.*decrypt it with "openssl pkey"/,
    ],
    [
      'a damaged key',
      { ...a, key_file: put('damaged.key', pem('a.key').replace(/^M/m, 'N')) },
      /holds a private key that is damaged/,
    ],
    [
      'wrong order',
      { ...a, cert_file: put('order.pem', pem('ca.pem') + pem('a.pem')) },
      /is in the wrong order: a, which the key belongs to, has to come first/,
    ],
  ]
}

t.test('each fault of a file by its name, at validate and at the start', async t => {
  if (!openssl) return
  for (const [name, paths, text] of faults()) {
    const { content, problems } = inspectTls(paths, systemClock.wall())
    t.equal(content !== undefined, text === undefined, name)
    t.match(problems.map(tlsProblemText).join('|'), text ?? /^$/, name)
    const start = new TlsFiles(paths, { log: pino({ level: 'silent' }), clock: systemClock, failed: () => {} }).load()
    if (text) await t.rejects(start, /^tls\./, name)
    else await start

    const option = (id: string) => (paths[id as keyof TlsPaths] ? `${id}: ${paths[id as keyof TlsPaths]}` : '')
    const listed = ['ca_file', 'cert_file', 'key_file'].map(option).filter(Boolean).join(', ')
    if (paths.client_ca_file || (paths.key_file === undefined) !== (paths.cert_file === undefined)) continue
    const config = path('sluice.yaml')
    writeFileSync(
      config,
      `sources: { in: { type: stdin } }\ndestinations:\n  out: { type: http, inputs: [in], url: https://localhost, tls: { ${listed} } }\n`,
    )
    const said = { out: '', err: '' }
    const code = await validate([config], {}, {
      stdout: { write: (text: string) => (said.out += text) },
      stderr: { write: (text: string) => (said.err += text) },
    } as never)
    const broken = problems.some(({ kind }) => kind === 'broken')
    t.equal(code, broken ? 78 : 0, name)
    const [first] = problems
    if (!first) t.equal(said.err, '', name)
    else
      t.ok(
        said.err.includes(
          `destinations.out.tls.${first.option}: ${broken ? '' : 'warning: '}${first.file} ${first.message}`,
        ),
        said.err,
      )
  }
})

t.test('validate: sources and the service, and what only this user may not read', async t => {
  if (!openssl) return
  const config = path('service.yaml')
  const key = path('mine.key')
  copyFileSync(path('a.key'), key)
  const run = async (env: NodeJS.ProcessEnv = {}) => {
    const said = { err: '' }
    const sink = (text: string) => (said.err += text)
    return {
      code: await validate([config], env, { stdout: { write: () => true }, stderr: { write: sink } } as never),
      ...said,
    }
  }
  const tls = (cert: string, key: string) => `tls: { cert_file: ${cert}, key_file: ${key} }`
  writeFileSync(
    config,
    `service: { ${tls(path('a.pem'), path('b.key'))} }\nsources: { in: { type: tcp, listen: 127.0.0.1:0, ${tls('${CERT}', key)} } }\ndestinations: { out: { type: stdout, inputs: [in] } }\n`,
  )
  const broken = await run({ CERT: path('b.pem') })
  t.equal(broken.code, 78)
  t.match(
    broken.err,
    /service.yaml:1:\d+: service.tls.key_file: .*b.key does not belong to the certificate in .*a.pem \(a\)/,
  )
  t.match(
    broken.err,
    /service.yaml:2:\d+: sources.in.tls.key_file: .*mine.key does not belong to the certificate in \$\{CERT\} \(b\)/,
  )
  t.equal(broken.err.trim().split('\n').length, 2)
  if (process.getuid?.() === 0) return
  chmodSync(key, 0)
  t.match(
    (await run({ CERT: path('a.pem') })).err,
    /warning: .*mine.key cannot be read: this user may not read it \(EACCES\)/,
  )
})

t.test('what expires is told some days before, and shown', async t => {
  if (!openssl) return
  mkdirSync(path('short'))
  const short = makeCertificates(openssl, path('short'), ['leaf'])
  const logs: Record<string, unknown>[] = []
  const log = pino({ base: null }, { write: line => void logs.push(JSON.parse(line) as Record<string, unknown>) })
  let wall = systemClock.wall()
  let failed = 0
  const clock = { now: () => 0, wall: () => wall }
  const paths = { ca_file: short.path('ca.pem'), cert_file: short.path('leaf.pem'), key_file: short.path('leaf.key') }
  const tls = new TlsFiles(paths, { log, clock, failed: () => failed++ })
  await tls.load()
  t.same(logs, [], 'two days are the life of this certificate')
  const [ca, leaf] = expiryFact(() => tls.expiries).read() as readonly FactSample[]
  t.match(ca, { labels: { option: 'ca_file', file: short.path('ca.pem') } })
  t.ok(Math.abs(leaf!.value - (wall + 2 * DAY_MS) / 1000) < 600)
  wall += 1.8 * DAY_MS
  await tls.renewed()
  await tls.renewed()
  t.match(logs, [
    {
      level: 40,
      code: 'SLUICE_CERTIFICATE_EXPIRES',
      option: 'tls.ca_file',
      subject: 'Test CA',
      msg: 'a certificate expires soon; renew it',
    },
    { level: 40, option: 'tls.cert_file', file: short.path('leaf.pem'), subject: 'leaf' },
  ])
  wall += DAY_MS
  await tls.renewed()
  t.match(logs.slice(2), [
    { level: 50, code: 'SLUICE_CERTIFICATE_EXPIRED', msg: 'a certificate has expired; renew it' },
    { level: 50, code: 'SLUICE_CERTIFICATE_EXPIRED' },
  ])
  t.match(inspectTls(paths, wall).problems.map(tlsProblemText), [
    /ca.pem has expired: Test CA was valid until 2\d{3}-\d\d-\d\d; renew it/,
    /leaf.pem has expired: leaf/,
  ])
  t.match(inspectTls(paths, 0).problems.map(tlsProblemText), [
    /is not valid yet: Test CA is valid from/,
    /is not valid yet/,
  ])

  // A broken replacement: the last good one stays, told and counted once for each thing that is wrong.
  logs.length = 0
  wall -= 2.8 * DAY_MS
  writeFileSync(short.path('leaf.key'), 'x')
  for (let i = 0; i < 3; i++) t.equal(await tls.renewed(), undefined)
  rmSync(short.path('leaf.key'))
  t.equal(await tls.renewed(), undefined)
  t.equal(failed, 2)
  t.match(logs, [
    { level: 50, error: /leaf.key holds no PEM block/ },
    { level: 50, error: /leaf.key cannot be read/ },
  ])
  short.make('leaf')
  t.ok((await tls.renewed())?.cert?.equals(short.pem('leaf.pem')))
  t.match(logs.at(-1), { level: 30, msg: 'TLS files were renewed' })
  t.equal(await tls.renewed(), undefined)
})

t.test('certificates that expire, and clients that were refused, are problems', async t => {
  const DAY_S = 86_400
  const expiring = (days: number) =>
    problemsIn('in', metrics => {
      const dates = { option: 'cert_file' as const, file: '/a.pem', subject: 'a', validFrom: 0 }
      metrics.fact(expiryFact(() => [{ ...dates, expiresAt: days * DAY_S * 1000 }]))
    })
  t.same(expiring(8), [])
  t.match(expiring(3), [
    {
      what: 'in: the certificate in tls.cert_file (/a.pem) expires on 1970-01-04',
      todo: /^Renew the certificate/,
    },
  ])
  t.match(expiring(-1), [{ what: 'in: the certificate in tls.cert_file (/a.pem) expired on 1969-12-31' }])
  const refused = (code: string, age: number) =>
    problemsIn('in', metrics => {
      let now = 0
      const refusals = new TlsRefusals(pino({ level: 'silent' }), { now: () => now, wall: () => now })
      for (let n = 0; n < 3; n++) refusals.add(Object.assign(new Error('no'), { code }), new Socket())
      now = age * 1000
      metrics.fact(refusals.fact)
    })
  const [problem, ...others] = refused('ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', 70)
  t.match(problem, {
    what: /^in refused 3 TLS connections \([a-z_]+\), the last one 1m 10s ago$/,
    todo: /SLUICE_TLS_REFUSED/,
  })
  t.same(others, [])
  t.same([...refused('ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', 4000), ...refused('ECONNRESET', 1)], [])
})
