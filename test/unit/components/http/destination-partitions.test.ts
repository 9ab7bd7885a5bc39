import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { httpDestination } from '../../../../src/components/http/destination.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { checkDestination } from '../../../../src/engine/testing/check-destination.js'
import {
  clientOptions,
  defineHttpDestination,
  type Template,
  template,
  z,
} from '../../../../src/plugin/contract/v1/plugin.js'
import { batchesOf } from '../../../support/batches.js'
import { deliver, json, make, receiver } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'

const lines = (events: readonly object[]) => events.map(event => `${JSON.stringify(event)}\n`).join('')

t.test('templates: a request has the events of one URL and one set of headers, in order', async t => {
  const to = await receiver(t)
  const made = await make({
    url: to.url('/app/${.app}/in?level=${.level:-none}'),
    headers: { 'X-Scope-OrgID': 'org-${.tenant}', 'X-Team': 'a $${b}' },
    compression: 'gzip',
  })
  const { delivery, end, settled } = deliver(testFolder(t), made, { batch: { max_wait: '5ms' } })
  await delivery.start()
  const status = (status: AckStatus) => settled.push(status)
  for (const part of [0, 1]) {
    const events = Array.from({ length: 60 }, (_, i) => ({
      n: part * 60 + i,
      app: 'ab'[i % 2],
      tenant: i % 3 ? 'x' : 'y',
      ...(i % 5 === 0 && { level: 'error' }),
    }))
    delivery.write(batchesOf(lines(events), json, status)[0]!)
  }
  t.same(await end(), { events: 0, bytes: 0 })
  t.same(settled, ['delivered', 'delivered'])
  const read = new Map<string, number[]>()
  for (const { path, headers, body } of to.requests) {
    t.equal(headers['x-team'], 'a ${b}', 'no field: as it is')
    for (const line of body.trim().split('\n')) {
      const { n, app, tenant, level = 'none' } = JSON.parse(line) as Record<string, string>
      t.same([path, headers['x-scope-orgid']], [`/app/${app}/in?level=${level}`, `org-${tenant}`])
      const of = `${path} ${tenant}`
      read.set(of, [...(read.get(of) ?? []), Number(n)])
    }
  }
  t.equal(read.size, 8)
  t.equal([...read.values()].flat().length, 120)
  for (const [of, ns] of read)
    t.same(
      ns,
      [...ns].sort((a, b) => a - b),
      of,
    )
})

t.test('values stay in their place; an event without a usable one is rejected', async t => {
  const to = await receiver(t)
  const made = await make({ url: to.url('/a/${.app}/in'), headers: { 'X-Tenant': '${.tenant:-none}' } })
  const folder = testFolder(t)
  const { delivery, end, settled } = deliver(folder, made, { batch: { max_wait: '5ms' } })
  await delivery.start()
  const cases: [unknown, string | undefined, unknown?, string?][] = [
    ['b', '/a/b/in'],
    ['../admin', '/a/..%2Fadmin/in'],
    ['x/y', '/a/x%2Fy/in'],
    ['x?y#z&', '/a/x%3Fy%23z%26/in'],
    ['x\r\nHost: evil', '/a/x%0D%0AHost%3A%20evil/in'],
    ['%2e%2e', '/a/%252e%252e/in'],
    ['...', '/a/.../in'],
    ['\\..\\', '/a/%5C..%5C/in'],
    ['é\ud800', '/a/%C3%A9%EF%BF%BD/in'],
    [5, '/a/5/in'],
    [null, '/a/null/in'],
    ['x'.repeat(256), `/a/${'x'.repeat(256)}/in`],
    ['t', '/a/t/in', 'a\r\nX-Evil: 1', 'a%0D%0AX-Evil: 1'],
    ['u', '/a/u/in', ' é%\0', '%20%C3%A9%25%00'],
    ['v', '/a/v/in', '', 'none'],
    ['..', undefined],
    ['.', undefined],
    ['', undefined],
    [undefined, undefined],
    ['x'.repeat(257), undefined],
    ['é'.repeat(129), undefined],
    ['w', undefined, 'x'.repeat(1000)],
  ]
  const events = cases.map(([app, , tenant]) => ({ app, tenant }))
  delivery.write(batchesOf(lines(events), json, status => settled.push(status))[0]!)
  t.same(await end(), { events: 0, bytes: 0 })
  const wanted = cases.flatMap(([, path, , tenant = 'none']) => (path === undefined ? [] : [`${path} ${tenant}`]))
  t.same(to.requests.map(({ path, headers }) => `${path} ${headers['x-tenant']}`).sort(), wanted.sort())
  t.equal(
    to.requests.find(({ headers }) => headers['x-evil']),
    undefined,
  )
  t.same(settled, ['rejected'])
  const rejected = readFileSync(join(folder, 'dead-letter', 'out.ndjson'), 'utf8')
    .trim()
    .split('\n')
  t.equal(rejected.length, 7)
  t.match(rejected.join('\n'), /url would leave its path/)
  t.match(rejected.join('\n'), /\.app is missing or empty/)
  t.match(rejected.join('\n'), /\.tenant is longer than 256 bytes/)
})

t.test('where a field may be', async t => {
  const problems = (options: object) => {
    const { error } = httpDestination.options.safeParse(options)
    return error?.issues.map(({ path, message }) => `${path.join('.')} ${message}`)
  }
  for (const url of [
    'http://${.h}/a',
    '${.u}',
    'http://h:80${.p}/',
    'http://h${.d}',
    'http://h.${.d}:8080/x',
    'http://h\\${.x}/',
  ])
    t.match(problems({ url }), [/^url .*(only in its path and its query|whole address)/], url)
  t.match(problems({ url: 'http://${.u}@h/a' }), [/^url /])
  t.match(problems({ url: 'http://h/a/../${.x}' }), [/must not have "\." or "\.\."/])
  t.match(problems({ url: 'http://h/a/%2e/${.x}' }), [/must not have "\." or "\.\."/])
  t.match(problems({ url: 'http://h/a/${.x' }), [/expected "}"/])
  t.match(problems({ url: 'http://h/a#${.x}' }), [/after "#"/])
  t.match(problems({ url: 'http://h/', headers: { a: '${.x' } }), [/^headers.a .*expected "}"/])
  t.match(problems({ url: 'http://h/', validate: 'http://h/${.x}' }), undefined, 'an address like any other')
  for (const url of ['http://h/${.x}', 'http://h?a=${.x}', 'https://h:1/a-${.x.y}.json?b=${.z:-c}'])
    t.equal(problems({ url }), undefined, url)
})

t.test('its contract holds with templates', async t => {
  const found = await checkDestination(httpDestination, async () => {
    const to = await receiver(t)
    return {
      options: { url: to.url('/${.level:-none}'), headers: { 'x-a': '${.app:-none}' } },
      arrived: () =>
        to.requests
          .filter(({ status = 0 }) => status < 300)
          .map(({ body }) => body)
          .join(''),
    }
  })
  t.same(found, [])
})

t.test('explain names the URL of an event, or why it has none', async t => {
  const options = httpDestination.options.parse({ url: 'http://h/app/${.app}', headers: { a: '${.b:-c}' } })
  const { context } = await make({ url: 'http://h/app/${.app}' })
  const explain = (await httpDestination.explains!()).explain!(options, context)
  const batch = batchesOf(lines([{ app: 'x y' }, {}]), json)[0]!
  t.match(explain(batch.fork(0, 1)), { outcome: 'delivered', findings: [{ text: 'POST http://h/app/x%20y' }] })
  t.throws(() => explain(batch.fork(1, 2)), { reason: 'partition', message: '.app is missing or empty' })
  t.same(
    httpDestination.usesFields!(options).map(({ option, path, without }) => [option, path.text, without]),
    [
      ['url', '.app', 'every event is rejected'],
      ['headers', '.b', undefined],
    ],
  )
})

t.test('a format may have texts in the body that divide events as the URL does', async t => {
  const labelled = defineHttpDestination({
    contract: 1,
    type: 'labelled',
    summary: 'Events below their labels.',
    options: z.strictObject({ ...clientOptions, labels: z.record(z.string(), template()) }),
    usesFields: ({ labels }) => Object.values(labels).map(({ parts }) => ({ option: 'labels', path: fieldIn(parts) })),
    examples: [{ title: 'x', yaml: 'url: http://h\nlabels: { app: x }\n' }],
    format: ({ url, labels }) => ({
      url,
      contentType: 'application/json',
      texts: labels,
      encode(request, texts) {
        const events = request.flatMap(batch => Array.from({ length: batch.length }, (_, i) => batch.fields(i)))
        const body = Buffer.from(JSON.stringify({ texts, events }))
        return { parts: [body], bytes: body.length }
      },
    }),
  })
  const open = async () => {
    const to = await receiver(t)
    const arrived = () => to.requests.flatMap(({ status = 0, body }) => (status < 300 ? [body] : [])).join('')
    return { to, options: { url: to.url('/${.level:-none}'), labels: { app: '${.app:-none}', job: 'a "b"' } }, arrived }
  }
  t.same(await checkDestination(labelled, open), [])
  const { to, options } = await open()
  const made = await make(options, labelled)
  const { delivery, end } = deliver(testFolder(t), made, { batch: { max_wait: '5ms' } })
  await delivery.start()
  const events = Array.from({ length: 40 }, (_, n) => ({ n, ...(n % 2 && { app: 'é' }), level: 'xy'[(n >> 1) % 2] }))
  delivery.write(batchesOf(lines(events), json)[0]!)
  t.same(await end(), { events: 0, bytes: 0 })
  t.equal(to.requests.length, 4)
  for (const { path, body } of to.requests) {
    const { texts, events } = JSON.parse(body) as { texts: object; events: { app?: string; level: string }[] }
    t.equal(events.length, 10)
    for (const { app = 'none', level } of events) t.same([path, texts], [`/${level}`, { app, job: 'a "b"' }])
  }
  const parsed = labelled.options.parse({ ...options, labels: { app: '${.app}' } })
  t.same(
    labelled.usesFields!(parsed).map(({ option, path }) => [option, path.text]),
    [
      ['url', '.level'],
      ['labels', '.app'],
    ],
  )
  const explain = (await labelled.explains!()).explain!(parsed, made.context)
  const batch = batchesOf(lines([{ app: 'x' }, {}]), json)[0]!
  t.match(explain(batch.fork(0, 1)).bytes?.toString(), /^\{"texts":\{"app":"x"\}/)
  t.throws(() => explain(batch.fork(1, 2)), /\.app is missing/)
})

const fieldIn = (parts: Template['parts']) => parts.flatMap(part => (typeof part === 'string' ? [] : [part.path]))[0]!
