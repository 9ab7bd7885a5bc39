import t from 'tap'
import { z } from 'zod'
import { components } from '../../../../../src/components/list.js'
import { defineProcessor } from '../../../../../src/core/component.js'
import { secret } from '../../../../../src/core/options/options.js'
import { reaches } from '../../../../../src/core/options/reach.js'
import { secretInput } from '../../../../../src/daemon/client/inputs.js'
import {
  HIDDEN,
  hideLiterals,
  holdersIn,
  literalSecrets,
  misplacedSecrets,
} from '../../../../../src/engine/config/published/secret-places.js'
import { Sealer } from '../../../../../src/service/api/domain/secrets/sealer.js'
import { as, openService, outcome } from '../../../../support/api-service.js'

const PAGE = { limit: 50 }
const http = (more: object) => ({
  destinations: { out: { type: 'http', inputs: ['ingest'], url: 'http://logs.example.com/', ...more } },
})
const proxied = (password: string, user = 'me') => {
  const proxy = { url: 'http://proxy.example.com:3128', auth: { user, password } }
  return { destinations: { out: { type: 'http', inputs: ['ingest'], url: 'http://logs.example.com/', proxy } } }
}
const processing = (one: object) => ({
  processors: { one: { inputs: ['ingest'], ...one } },
  destinations: { out: { type: 'blackhole', inputs: ['one'] } },
})
const cluster = (password: string) => {
  const redis = { url: 'redis://redis.example.com:6379', password }
  return processing({ type: 'throttle', limit: 1, window: '1s', scope: 'cluster', redis })
}
const hashed = (key: string) =>
  processing({ type: 'redact', fields: ['.message'], presets: ['email'], action: { hash: { key } } })
const token = (key: string) => http({ auth: { type: 'token', key } })

t.test('secrets are written, replaced, removed, and never shown', async t => {
  const { service, first, time, written } = await openService(t, { secrets: 2 })
  const { secrets, users } = service
  const manager = await as(service, first.manager.key)
  const invited = await users.create(manager, { email: 'v@example.com', role: 'viewer' })
  const viewer = await as(service, invited.key)
  const made = await secrets.set(manager, 'up', { value: 'value-1' })
  const by = { id: first.manager.id, email: 'first@example.com' }
  t.same(made, { name: 'up', created_at: made.created_at, updated_at: made.created_at, updated_by: by })
  await time.advance(1000)
  const again = await secrets.set(manager, 'up', { value: 'value-1' })
  t.match(again, { created_at: made.created_at, updated_by: by })
  t.not(again.updated_at, made.updated_at)
  t.same((await secrets.list(viewer, PAGE)).items, [again])
  t.equal(await outcome(secrets.set(viewer, 'up', { value: 'x' })), '403 scope_missing')
  t.equal(await outcome(secrets.remove(viewer, 'up')), '403 scope_missing')
  for (const name of ['', '1', 'a b', '../x', 'a'.repeat(65), 'ä'])
    t.equal(await outcome(secrets.set(manager, name, { value: 'x' })), '404 not_found', name)
  await secrets.set(manager, 'second', { value: 'value-2' })
  t.equal(await outcome(secrets.set(manager, 'third', { value: 'value-3' })), '409 limit_reached')
  const config = token('${secret:up}')
  t.same((await secrets.for(first.account.id, config)).values(), { up: 'value-1' })
  await secrets.remove(manager, 'up')
  t.equal(await outcome(secrets.remove(manager, 'up')), '404 not_found')
  const gone = await secrets.for(first.account.id, config)
  t.throws(() => gone.values(), { message: /the secret up does not exist/ })
  const actions = (await service.audit.list(manager, PAGE)).items.filter(({ target }) => target.type === 'secret')
  t.same(
    actions.map(({ action, target, details }) => [action, target.id, details]),
    [
      ['secret.remove', 'up', {}],
      ['secret.create', 'second', {}],
      ['secret.replace', 'up', {}],
      ['secret.create', 'up', {}],
    ],
  )
  const sealed = written.flatMap(text => /\\"data\\":\\"(.+?)\\"/.exec(text)?.[1] ?? [])
  t.equal(new Set(sealed).size, 3, 'the same value is never the same twice')
  for (const text of written) t.notMatch(text, /value-\d/, 'nothing of it is stored as it is')
})

t.test('another account has secrets of its own', async t => {
  const { service, first } = await openService(t)
  const wide = await as(service, first.enterprise_service_account.key)
  const other = await service.accounts.create(wide, { title: 'other' })
  const within = await as(service, first.enterprise_service_account.key, other.id)
  const manager = await as(service, first.manager.key)
  await service.secrets.set(manager, 'up', { value: 'mine' })
  await service.secrets.set(within, 'up', { value: 'theirs' })
  const valuesOf = async (account: string) => (await service.secrets.for(account, token('${secret:up}'))).values()
  t.same([await valuesOf(first.account.id), await valuesOf(other.id)], [{ up: 'mine' }, { up: 'theirs' }])
  t.equal(await outcome(service.secrets.list(wide, PAGE)), '403 account_required')
})

t.test('what is encrypted opens with the same key in the same place only', async t => {
  const random = (bytes: number) => Buffer.alloc(bytes, 3)
  const sealer = new Sealer(Buffer.alloc(32, 1), random)
  const sealed = sealer.seal('a valüe', 'secret/a/up')
  t.equal(sealer.open(sealed, 'secret/a/up'), 'a valüe')
  t.equal(new Sealer(Buffer.alloc(32, 1), random).open(sealed, 'secret/a/up'), 'a valüe')
  t.equal(sealer.open(sealed, 'secret/b/up'), undefined)
  t.equal(new Sealer(Buffer.alloc(32, 2), random).open(sealed, 'secret/a/up'), undefined)
  const damaged = Buffer.from(sealed.data, 'base64')
  damaged[0]! ^= 1
  t.equal(sealer.open({ ...sealed, data: damaged.toString('base64') }, 'secret/a/up'), undefined)
  t.equal(sealer.open({ ...sealed, data: '' }, 'secret/a/up'), undefined)
})

t.test('texts that are made to take long to read', async t => {
  const { service, first } = await openService(t)
  const me = await as(service, first.manager.key)
  const before = process.cpuUsage()
  t.same(secretInput.safeParse({ value: `${'\n'.repeat(400_000)}x` }).success, false)
  t.same(secretInput.parse({ value: `x${'\r\n'.repeat(200_000)}` }), { value: 'x' })
  const texts = ['${secret:'.repeat(14_000), `${'$'.repeat(100_000)}{secret:`, '$${secret:'.repeat(12_000)]
  for (const text of texts) {
    const created = service.pipelines.create(me, { title: 'x', config: http({ headers: { a: text } }) })
    t.equal(await outcome(created), '400 invalid_pipeline')
  }
  const { user } = process.cpuUsage(before)
  t.ok(user < 5e6, `the time grows with the length alone: ${user / 1e6} s`)
})

t.test('no key stands in a pipeline itself', async t => {
  const { service, first } = await openService(t)
  const { pipelines } = service
  const me = await as(service, first.manager.key)
  const faults = (config: Record<string, unknown>) =>
    pipelines.create(me, { title: 'x', config }).then(
      () => [],
      error => error.errors,
    )
  const how = /literal value.*sluice api set-secret NAME.*\$\{secret:NAME\}/
  const refused: [string, Record<string, unknown>, string][] = [
    ['a key', token('hunter2'), 'auth.key'],
    ['a part of a key', token('a${secret:up}'), 'auth.key'],
    ['a default', token('${KEY:-hunter2}'), 'auth.key'],
    ['what is shown of one', token(HIDDEN), 'auth.key'],
    ['a header', http({ headers: { Authorization: 'Bearer hunter2' } }), 'headers.Authorization'],
    ['a header of any name', http({ headers: { 'X-Honeycomb-Team': 'hunter2' } }), 'headers.X-Honeycomb-Team'],
    ['two words', http({ headers: { a: 'hunter2 hunter3 ${secret:up}' } }), 'headers.a'],
    ['the password of a proxy', proxied('hunter2'), 'proxy.auth.password'],
    ['what is shown of one', proxied(HIDDEN), 'proxy.auth.password'],
    ['a token in a URL', http({ url: 'http://x/?a=b&token=hunter2' }), 'url'],
    ['another name', http({ url: 'http://x/?DD-API-Key=hunter2' }), 'url'],
    ['a disguised name', http({ url: 'http://x/?a=b;access%5Ft\tok%65n=hunter2#' }), 'url'],
    ['a part of a token', http({ validate: 'http://x/?sig=a${secret:up}' }), 'validate'],
    ['a value without a name', http({ url: 'http://x/?hunter2' }), 'url'],
    ['beside others', http({ url: 'http://x/?index=main&hunter2&x=' }), 'url'],
    ['one in base64', http({ url: 'http://x/?aHVudGVyMg==' }), 'url'],
    ['an empty name', http({ url: 'http://x/?=hunter2' }), 'url'],
    ['a parameter of the path', http({ url: 'http://x/logs;token=hunter2/app?a=b' }), 'url'],
    ['another one', http({ validate: 'http://x/a;v=1;JSESSIONID=hunter2' }), 'validate'],
    ['a header whose first word is the key', http({ headers: { a: 'hunter ${secret:up}' } }), 'headers.a'],
    ['or its name', http({ headers: { a: 'hunter2=${secret:up}' } }), 'headers.a'],
    ['a default for a field', http({ headers: { a: '${.key:-hunter2}' } }), 'headers.a'],
    ['an address in a header', http({ headers: { Referer: 'http://x/?token=hunter2' } }), 'headers.Referer'],
    ['a token as a user', proxied('${secret:up}', 'x7Jq2mZ9Lk4Rt8Wv3Np6'), 'proxy.auth.user'],
    [
      'a token as a scheme',
      http({ auth: { type: 'token', scheme: 'x7Jq2mZ9Lk4Rt8Wv3Np6', key: '${secret:up}' } }),
      'auth.scheme',
    ],
  ]
  const inUrls = ['me:hunter2@x', 'hunter2@x', 'hunter2:@x', 'hunter2:x-oauth-basic@x', 'me@hunter2@x']
  for (const url of [...inUrls.map(place => `http://${place}/`), 'http:hunter2@x', 'ht\ttp:\\\\hunter2@x\\a'])
    t.match((await faults(http({ url })))[0], { path: 'config.destinations.out.url', message: how }, url)
  for (const [what, config, path] of refused)
    t.match(await faults(config), [{ path: `config.destinations.out.${path}`, message: how }], what)
  t.match((await faults(http({ url: 'http://x/?b=c&api_key=x' })))[0], {
    message: /^has in api_key .* write api_key=\$\{/,
  })
  const source = { sources: { in: { type: 'http', listen: '127.0.0.1:1', auth: { key: 'hunter2' } } } }
  t.match(await faults({ ...source, ...http({}) }), [{ path: 'config.sources.in.auth.key', message: how }])
  t.match(await faults(cluster('hunter2')), [{ path: 'config.processors.one.redis.password', message: how }])
  t.match(await faults(hashed('hunter2')), [{ path: 'config.processors.one.action.hash.key', message: how }])
  const misplaced: [Record<string, unknown>, RegExp][] = [
    [
      http({ url: 'http://x/${secret:up}' }),
      /Only these may: options for a key or a password .*, headers, and the parameters of a URL/,
    ],
    [http({ url: 'http://${secret:up}/?token=${secret:up}' }), /must not refer/],
    [http({ url: 'http://x/?${secret:up}=a' }), /must not refer/],
    [http({ compression: '${secret:up}' }), /must not refer/],
    [http({ headers: { a: '${secret:9}' } }), /must begin with a letter and have only A-Z/],
    [token('${secret:a/b}'), /must begin with a letter and have only A-Z/],
  ]
  for (const [config, message] of misplaced) t.match((await faults(config))[0], { message })
  const taken = [
    token('${secret:up}'),
    token('${KEY}'),
    proxied('${secret:up}'),
    cluster('${secret:up}'),
    hashed('${REDACT_KEY}'),
    http({ url: 'http://x/?index=main&token=${secret:up}&x=${secret:b}', validate: 'http://x/?source=a-b-c' }),
    http({ headers: { Authorization: 'Bearer ${secret:up}', 'Content-Type': 'text/plain', a: '${secret:b}' } }),
    http({ headers: { a: 'Api-Key ${secret:up}', b: 'token=${secret:up}', c: '${.team:-none}', d: 'Splunk ${KEY}' } }),
    http({ url: 'http://x/a;v=1/${.app:-none};token=${secret:up}?pretty=&x=/a?b&${secret:b}' }),
    http({ headers: { Referer: 'http://x/?token=${secret:up}' } }),
    proxied('${secret:up}', 'service-account-of-logs-01'),
    proxied('${secret:up}', '${secret:b}'),
  ]
  for (const config of taken) t.same(await faults(config), [])
})

t.test('the schemas of plugins say where their secrets are', async t => {
  const options = z.strictObject({
    access: z.union([z.literal('none'), z.strictObject({ tokens: z.array(secret()) })]).optional(),
    by_host: z.record(z.string(), z.strictObject({ pin: secret().optional().describe('A number.') })).optional(),
    note: reaches('nothing', z.string()).optional(),
  })
  const summary = 'It is only read.'
  const create = () => {
    throw new Error('it is not run')
  }
  const own = defineProcessor({ type: 'own', summary, options, examples: [{ title: 'x', yaml: '' }], create })
  const config = processing({
    type: 'own',
    access: { tokens: ['a', '${secret:b}', 'c'] },
    by_host: { d: { pin: 'e' } },
    note: 'f',
  })
  const all = [...components, own]
  t.same(
    literalSecrets(holdersIn(config, all)).map(({ path }) => path.replace('processors.one.', '')),
    ['access.tokens.0', 'access.tokens.2', 'by_host.d.pin'],
  )
  const hidden = { access: { tokens: [HIDDEN, '${secret:b}', HIDDEN] }, by_host: { d: { pin: HIDDEN } }, note: 'f' }
  t.match(hideLiterals(config, all), processing({ type: 'own', ...hidden }))
  const refers = (one: object) => {
    const config = processing({ type: 'own', ...one })
    return misplacedSecrets(config, holdersIn(config, all)).length
  }
  t.same([refers({ by_host: { d: { pin: '${secret:a}' } } }), refers({ note: '${secret:a}' })], [0, 1])
  const hiddenUrl = (url: string) => (hideLiterals(http({ url }), all).destinations.out as { url: string }).url
  t.equal(hiddenUrl('http://hunter2@x/'), `http://${HIDDEN}@x/`, 'which was accepted once')
  t.equal(hiddenUrl('redis://me:hunter2@x'), `redis://${HIDDEN}:${HIDDEN}@x`)
  t.equal(hiddenUrl('amqp://me:${secret:b}@x/?a=b'), 'amqp://me:${secret:b}@x/?a=b')
  t.equal(hiddenUrl('http://x/#hunter2'), `http://x/#${HIDDEN}`)
  const gone = processing({ type: 'gone', auth: { key: 'a' }, redis: { password: 'b' }, url: 'http://x/?token=c' })
  const shown = JSON.stringify(hideLiterals(gone, components))
  t.notMatch(shown, /"a"|"b"|=c"/, 'a plugin that is not there any more has them where others have')
})

t.test(
  'an option that a plugin declares to be a key after it was saved is hidden, and still reaches daemons',
  async t => {
    const pluginWith = (pin: z.ZodType) =>
      defineProcessor({
        type: 'own',
        summary: 'It is only read.',
        options: z.strictObject({ pin }),
        examples: [{ title: 'x', yaml: '' }],
        create: () => {
          throw new Error('it is not run')
        },
      })
    const before = [...components, pluginWith(reaches('nothing', z.string()))]
    const after = [...components, pluginWith(secret())]
    const { service, first, again } = await openService(t, {}, before)
    const me = await as(service, first.manager.key)
    const config = processing({ type: 'own', pin: 'hunter2' })
    const { id } = (await service.pipelines.create(me, { title: 'x', config })).document
    await service.pipelines.publish(me, id, {})
    const { pipelines } = await again(after)
    const shown = processing({ type: 'own', pin: HIDDEN })
    const documents = [
      (await pipelines.get(me, id)).document,
      (await pipelines.list(me, PAGE)).items[0],
      (await pipelines.revisions(me, id, PAGE)).items[0],
      await pipelines.revision(me, id, 1),
      (await pipelines.published(me, id)).document,
    ]
    for (const document of documents) t.same(document?.config, shown)
    const daemon = await as(service, first.service_account.key)
    t.same((await pipelines.published(daemon, id)).document.config, config)
    t.same((await pipelines.forIngest(me, id)).config, config)
    t.equal(await outcome(pipelines.update(me, id, { config: shown })), '400 invalid_pipeline')
    t.equal(await outcome(pipelines.update(me, id, { title: 'y' })), 'done')
    t.equal(await outcome(pipelines.publish(me, id, {})), '400 invalid_pipeline', 'it is not published once more')
  },
)

t.test('a pipeline tells which of its secrets do not exist', async t => {
  const { service, first } = await openService(t)
  const { pipelines, secrets } = service
  const me = await as(service, first.manager.key)
  const created = await pipelines.create(me, { title: 'x', config: token('${secret:up}') })
  const { id } = created.document
  t.same(created.document.missing_secrets, ['up'])
  t.same((await pipelines.list(me, PAGE)).items[0]?.missing_secrets, ['up'])
  await secrets.set(me, 'up', { value: 'x' })
  const complete = await pipelines.get(me, id)
  t.same(complete.document.missing_secrets, [])
  t.not(complete.etag, created.etag)
  t.equal(await outcome(pipelines.update(me, id, { title: 'y' }, created.etag)), '412 precondition_failed')
  await pipelines.publish(me, id, {})
  await pipelines.update(me, id, { config: token('${secret:other}') })
  t.same((await pipelines.get(me, id)).document.missing_secrets, ['other'])
  await secrets.remove(me, 'up')
  t.same((await pipelines.get(me, id)).document.missing_secrets, ['other', 'up'], 'also what is published needs it')
})
