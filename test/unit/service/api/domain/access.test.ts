import t from 'tap'
import { networkOf } from '../../../../../src/lib/network/network-address.js'
import { Grants } from '../../../../../src/service/api/domain/accounts/grants.js'
import { ApiError } from '../../../../../src/service/api/domain/errors.js'
import type { Principal } from '../../../../../src/service/api/domain/keys/principal.js'
import { RateLimiter, rateHeaders } from '../../../../../src/service/api/domain/keys/rate-limiter.js'
import type { Service } from '../../../../../src/service/api/domain/service.js'
import type { TableName } from '../../../../../src/service/api/store/store.js'
import { as, openService, outcome } from '../../../../support/api-service.js'
import { ManualTime } from '../../../../support/manual-time.js'
import { valuesOf } from '../../../../support/values-of.js'

const PAGE = { limit: 50 }
const DAY = 86_400_000
const config = { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } } }
const KEY = /st[sea]_[0-9a-f]{40}/

function refused(work: Promise<unknown>): Promise<ApiError> {
  return work.then(
    () => Promise.reject(new Error('it was not refused')),
    error => (error instanceof ApiError ? error : Promise.reject(error)),
  )
}

t.test('the first keys', async t => {
  const { service, first, written, logged } = await openService(t)
  t.ok(await service.initialized())
  t.equal(await outcome(service.init()), '409 already_initialized')
  const { manager, account } = first
  t.match(manager, { email: 'first@example.com', key: /^sta_[0-9a-f]{40}$/ })
  t.match(first.service_account.key, /^sts_[0-9a-f]{40}$/)
  t.match(first.enterprise_service_account.key, /^ste_[0-9a-f]{40}$/)
  t.match([first.enterprise.id, account.id, manager.id], Array(3).fill(/^[0-9a-f]{24}$/))
  t.match(account.short_id, /^[0-9a-z]{9}$/)

  const own = { account_id: account.id, account_short_id: account.short_id, enterprise_id: first.enterprise.id }
  const tokenOf = async (key: string, delegate?: string) => service.token(await as(service, key, delegate))
  t.match(await tokenOf(first.service_account.key), {
    ...own,
    type: 'service_account',
    subject: { id: first.service_account.id, email: `${first.service_account.id}@service-account.invalid` },
    scopes: ['pipeline:read', 'pipeline:write', 'ingest:write'],
    role: null,
    expires_at: null,
  })
  t.match(await tokenOf(manager.key), {
    ...own,
    type: 'personal',
    subject: { id: manager.id, email: 'first@example.com' },
    scopes: ['pipeline:read', 'pipeline:write', 'ingest:write', 'user:key', 'account:manage'],
    role: 'manager',
  })
  const whole = {
    type: 'enterprise_service_account',
    account_id: null,
    account_short_id: null,
    scopes: ['pipeline:read', 'pipeline:write', 'ingest:write', 'account:manage', 'enterprise:manage'],
    delegated: false,
  }
  const enterpriseKey = first.enterprise_service_account.key
  t.match(await tokenOf(enterpriseKey), whole)
  const within = await tokenOf(enterpriseKey, account.id)
  t.match(within, { ...own, delegated: true })
  t.same(within.scopes, whole.scopes.slice(0, -1))
  t.notMatch(written.join('\n'), KEY)
  t.notMatch(JSON.stringify(logged), KEY)
})

t.test('keys that are not taken', async t => {
  const { service, first, time } = await openService(t, { failedTries: { limit: 8, windowMs: 60_000 } })
  const key = first.service_account.key
  const tried = async (authorization: string | undefined, address = '192.0.2.1') =>
    service.authenticate({ authorization, address })
  t.equal((await tried(`Token ${key}`)).subject.id, first.service_account.id)
  t.equal((await tried(`  tOkEn   ${key} `)).subject.id, first.service_account.id, 'the scheme in any case')
  const wrong: [string | undefined, string][] = [
    [undefined, 'token_missing'],
    ['', 'token_missing'],
    [`Bearer ${key}`, 'token_malformed'],
    [key, 'token_malformed'],
    ['Token', 'token_malformed'],
    [`Token ${key} ${key}`, 'token_malformed'],
    [`Token ${key.toUpperCase()}`, 'token_malformed'],
    [`Token ${key}0`, 'token_malformed'],
    [`Token ${'x'.repeat(100_000)}`, 'token_malformed'],
    [`Token sts_${'0'.repeat(40)}`, 'token_unknown'],
  ]
  for (const [authorization, code] of wrong) {
    const error = await refused(tried(authorization))
    t.match(error, { status: 401, code, headers: { 'www-authenticate': /^Token/ } }, String(authorization).slice(0, 60))
    t.notMatch(error.message, /[0-9a-f]{40}/)
  }
  const other = `Token sta_${key.slice(4)}`
  const error = await refused(tried(other))
  t.match(error, { status: 429, code: 'too_many_failed_tries', headers: { 'retry-after': '60' } })
  t.equal((await tried(`Token ${key}`)).subject.id, first.service_account.id, 'a right key is not held up')
  t.equal(await outcome(tried(other, '198.51.100.7')), '401 token_unknown', 'nor is another address')
  await time.advance(60_000)
  t.equal(await outcome(tried(other)), '401 token_unknown', 'after a while')
  t.equal(await outcome(tried(other)), '401 token_unknown')
  t.match(service.counts(), { refusedKeys: { missing: 2, malformed: 7, unknown: 5 }, rateLimited: 1 })
})

t.test('keys that come over one connection, as through a proxy', async t => {
  const { service, first } = await openService(t)
  const connection = {}
  const who = (authorization?: string) =>
    outcome(
      (async () => {
        const { subject } = await service.authenticate({ authorization, address: '192.0.2.1', connection })
        throw new ApiError(200, subject.id, '')
      })(),
    )
  const { manager, service_account: account, enterprise_service_account: whole } = first
  for (let round = 0; round < 2; round++) {
    for (const { id, key } of [account, account, manager, whole, manager]) {
      t.equal(await who(`Token ${key}`), `200 ${id}`)
      const last = key.at(-1) === '0' ? '1' : '0'
      t.equal(await who(`Token ${key.slice(0, -1)}${last}`), '401 token_unknown')
      t.equal(await who(`Token ${key}0`), '401 token_malformed')
      t.equal(await who(undefined), '401 token_missing')
      t.equal(await who(`Token ${key}`), `200 ${id}`)
    }
  }
  const asManager = await as(service, manager.key)
  t.equal(await who(`Token ${account.key}`), `200 ${account.id}`)
  await service.serviceAccounts.revoke(asManager, account.id)
  t.equal(await who(`Token ${account.key}`), '401 token_revoked')
})

t.test('addresses that are one network', async t => {
  const table: [string, string][] = [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0db8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ]
  for (const [address, network] of table) t.equal(networkOf(address), network)
})

t.test('who may do what', async t => {
  const { service, first } = await openService(t)
  const manager = await as(service, first.manager.key)
  const keyOf = async (role: 'editor' | 'viewer') =>
    (await service.users.create(manager, { email: `${role}@x.org`, role })).key
  const whole = first.enterprise_service_account.key
  const principals: Record<string, Principal> = {
    manager,
    editor: await as(service, await keyOf('editor')),
    viewer: await as(service, await keyOf('viewer')),
    service: await as(service, first.service_account.key),
    enterprise: await as(service, whole),
    delegated: await as(service, whole, first.account.id),
  }
  const pipeline = (await service.pipelines.create(manager, { title: 'one', config })).document.id
  await service.pipelines.publish(manager, pipeline, {})
  let n = 0
  const report = {
    daemon_id: 'd',
    pipeline_id: pipeline,
    host: 'h',
    version: '1',
    revision: 1,
    health: 'ready' as const,
  }
  const someUser = async () => (await service.users.create(manager, { email: `${n++}@x.org`, role: 'viewer' })).id
  const someAccount = async (p: Principal) =>
    (await service.serviceAccounts.create(p.type === 'enterprise_service_account' && !p.account ? p : manager, {})).id
  const calls: Record<string, (p: Principal) => Promise<unknown>> = {
    'pipelines.list': p => service.pipelines.list(p, PAGE),
    'pipelines.get': p => service.pipelines.get(p, pipeline),
    'pipelines.published': p => service.pipelines.published(p, pipeline),
    'pipelines.revisions': p => service.pipelines.revisions(p, pipeline, PAGE),
    'pipelines.revision': p => service.pipelines.revision(p, pipeline, 1),
    'pipelines.create': p => service.pipelines.create(p, { title: 'more', config }),
    'pipelines.update': p => service.pipelines.update(p, pipeline, { title: `t${n++}` }),
    'pipelines.publish': p => service.pipelines.publish(p, pipeline, {}),
    'pipelines.forIngest': p => service.pipelines.forIngest(p, pipeline),
    'fleet.list': p => service.fleet.list(p, PAGE),
    'fleet.report': p => service.fleet.report(p, report),
    'users.list': p => service.users.list(p, PAGE),
    'users.get': p => service.users.get(p, first.manager.id),
    'users.create': p => service.users.create(p, { email: `${n++}@x.org`, role: 'manager' }),
    'users.update': async p => service.users.update(p, await someUser(), { role: 'editor' }),
    'users.invite': p => service.users.invite(p, first.manager.id, {}),
    'users.remove': async p => service.users.remove(p, await someUser()),
    'serviceAccounts.list': p => service.serviceAccounts.list(p, PAGE),
    'serviceAccounts.create': p => service.serviceAccounts.create(p, {}),
    'serviceAccounts.rotate': async p => service.serviceAccounts.rotate(p, await someAccount(p), {}),
    'serviceAccounts.revoke': async p => service.serviceAccounts.revoke(p, await someAccount(p)),
    'serviceAccounts.remove': async p => service.serviceAccounts.remove(p, await someAccount(p)),
    'userKeys.list': p => service.userKeys.list(p, PAGE),
    'userKeys.create': p => service.userKeys.create(p, {}),
    'accounts.current': p => service.accounts.current(p),
    'accounts.setFeature': p => service.accounts.setFeature(p, 'throttle', n++ % 2 === 0),
    'accounts.list': p => service.accounts.list(p, PAGE),
    'accounts.create': p => service.accounts.create(p, { title: 'child', manager: { email: 'm@x.org' } }),
    'audit.list': p => service.audit.list(p, PAGE),
    'pipelines.remove': async p =>
      service.pipelines.remove(p, (await service.pipelines.create(manager, { title: 'x', config })).document.id),
  }
  const scope = '403 scope_missing'
  const user = '403 user_required'
  const account = '403 account_required'
  const enterprise = '403 enterprise_token_required'
  const role = '403 manager_required'
  const ok = 'done'
  const columns = ['manager', 'editor', 'viewer', 'service', 'enterprise', 'delegated']
  const read = [ok, ok, ok, ok, account, ok]
  const write = [ok, ok, scope, ok, account, ok]
  const manage = [ok, scope, scope, scope, account, ok]
  const whose = [ok, scope, scope, scope, ok, ok]
  const keys = [ok, ok, ok, user, user, user]
  const top = [enterprise, enterprise, enterprise, enterprise, ok, '403 enterprise_scope_required']
  const table: Record<string, string[]> = {
    'pipelines.list': [ok, ok, ok, ok, ok, ok],
    'pipelines.get': read,
    'pipelines.published': read,
    'pipelines.revisions': read,
    'pipelines.revision': read,
    'pipelines.create': write,
    'pipelines.update': write,
    'pipelines.publish': write,
    'pipelines.remove': write,
    'pipelines.forIngest': write,
    'fleet.list': [ok, ok, ok, ok, ok, ok],
    'fleet.report': [ok, ok, '403 role_missing', ok, account, ok],
    'users.list': manage,
    'users.get': manage,
    'users.create': manage,
    'users.update': manage,
    'users.invite': manage,
    'users.remove': manage,
    'serviceAccounts.list': whose,
    'serviceAccounts.create': whose,
    'serviceAccounts.rotate': whose,
    'serviceAccounts.revoke': whose,
    'serviceAccounts.remove': whose,
    'userKeys.list': keys,
    'userKeys.create': keys,
    'accounts.current': read,
    'accounts.setFeature': [ok, role, role, role, account, role],
    'accounts.list': top,
    'accounts.create': top,
    'audit.list': whose,
  }
  t.same(Object.keys(table).sort(), Object.keys(calls).sort())
  for (const [call, expected] of Object.entries(table)) {
    const found = []
    for (const name of columns) found.push(await outcome(calls[call]!(principals[name]!)))
    t.same(found, expected, call)
  }
})

t.test('delegation', async t => {
  const { service, first } = await openService(t)
  const whole = first.enterprise_service_account.key
  const enterprise = await as(service, whole)
  const child = await service.accounts.create(enterprise, { title: 'child', manager: { email: 'm@child.org' } })
  const id = child.id
  const within = await as(service, whole, id)
  t.match(within.account, { id, shortId: child.short_id })
  const pipeline = (await service.pipelines.create(within, { title: 'in the child', config })).document
  const childManager = await as(service, child.manager!.key)
  t.same((await service.pipelines.list(childManager, PAGE)).items, [pipeline])
  t.same((await service.pipelines.list(await as(service, first.manager.key), PAGE)).items, [])
  t.same((await service.pipelines.list(enterprise, PAGE)).items, [pipeline], 'at enterprise scope, all')
  t.same(valuesOf((await service.accounts.list(enterprise, PAGE)).items, 'title'), ['Account', 'child'])

  for (const key of [first.manager.key, first.service_account.key]) {
    const error = await refused(as(service, key, id))
    t.match(error, { status: 403, code: 'delegation_not_allowed', message: /enterprise service accounts only/ })
    t.match(error.principal, { account: { id: first.account.id } }, 'it is known who asked')
  }
  for (const outside of ['0'.repeat(24), 'x', '', `${id}/`, id.toUpperCase(), first.enterprise.id]) {
    const error = await refused(as(service, whole, outside))
    t.match(error, { status: 403, code: 'account_not_in_enterprise' }, outside)
  }
})

t.test("another account's things are not there", async t => {
  const { service, first } = await openService(t)
  const enterprise = await as(service, first.enterprise_service_account.key)
  const child = await service.accounts.create(enterprise, { title: 'child', manager: { email: 'm@child.org' } })
  const [mine, theirs] = [await as(service, first.manager.key), await as(service, child.manager!.key)]
  const pipeline = (await service.pipelines.create(mine, { title: 'mine', config })).document.id
  const { id } = await service.serviceAccounts.create(mine, {})
  const { id: userId } = await service.users.create(mine, { email: 'a@b.c', role: 'viewer' })
  const key = await service.userKeys.create(mine, {})
  const report = {
    daemon_id: 'd',
    pipeline_id: pipeline,
    host: 'h',
    version: '1',
    revision: 1,
    health: 'ready' as const,
  }
  const calls: ((id: string) => Promise<unknown>)[] = [
    id => service.pipelines.get(theirs, id),
    id => service.pipelines.published(theirs, id),
    id => service.pipelines.forIngest(theirs, id),
    id => service.pipelines.update(theirs, id, { title: 'x' }),
    id => service.pipelines.publish(theirs, id, {}),
    id => service.pipelines.remove(theirs, id),
    id => service.pipelines.revisions(theirs, id, PAGE),
    id => service.pipelines.revision(theirs, id, 1),
    id => service.fleet.report(theirs, { ...report, pipeline_id: id }),
    id => service.serviceAccounts.get(theirs, id),
    id => service.serviceAccounts.rotate(theirs, id, {}),
    id => service.serviceAccounts.revoke(theirs, id),
    id => service.serviceAccounts.remove(theirs, id),
    id => service.users.get(theirs, id),
    id => service.users.update(theirs, id, { role: 'viewer' }),
    id => service.users.invite(theirs, id, {}),
    id => service.users.remove(theirs, id),
    id => service.userKeys.revoke(theirs, id),
  ]
  const real = [pipeline, id, userId, key.id, first.manager.id, first.service_account.id]
  for (const call of calls) {
    const answers = new Set<string>()
    for (const it of [...real, '0'.repeat(24), 'x', '', '../..', `${first.account.id}/${pipeline}`, 'ä'.repeat(999)]) {
      const error = await refused(call(it))
      answers.add(`${error.status} ${error.code} ${error.message}`)
    }
    t.match([...answers], [/^404 not_found/], `${call}: the same as what does not exist`)
    t.equal(answers.size, 1)
  }
  t.equal((await service.serviceAccounts.get(mine, id)).access_key?.id.length, 24)
})

t.test('requests of one key are limited', async t => {
  const { service, first, time } = await openService(t, { requestsPerKey: { limit: 4, windowMs: 2000 } })
  const key = first.service_account.key
  const left = []
  for (let i = 0; i < 4; i++) left.push((await as(service, key)).rate.remaining)
  t.same(left, [3, 2, 1, 0])
  const error = await refused(as(service, key))
  t.match(error, { status: 429, code: 'too_many_requests', principal: { subject: { id: first.service_account.id } } })
  t.same(error.headers, {
    'ratelimit-limit': '4',
    'ratelimit-remaining': '0',
    'ratelimit-reset': '2',
    'ratelimit-policy': '4;w=2',
    'retry-after': '2',
  })
  t.ok(await as(service, first.manager.key), 'others are not held up')
  await time.advance(1999)
  t.equal(await outcome(as(service, key)), '429 too_many_requests')
  await time.advance(1)
  t.ok(await as(service, key))
})

t.test('a limit in any window, over many keys', async t => {
  const time = new ManualTime()
  const limiter = new RateLimiter({ limit: 10, windowMs: 1000 }, time, { live: 1 }, 50)
  const taken: number[] = []
  for (let ms = 0; ms < 5000; ms += 7) {
    const { allowed, remaining, waitMs } = limiter.take('a')
    if (allowed) taken.push(ms)
    if (waitMs > 0 !== (remaining === 0)) t.fail(`${remaining} left, ${waitMs} ms to wait`)
    await time.advance(7)
  }
  const inWindow = taken.map(from => taken.filter(ms => ms >= from && ms < from + 1000).length)
  t.equal(Math.max(...inWindow), 10, 'never more, wherever the window begins')
  t.ok(taken.length >= 45, `and not much less: ${taken.length} in five seconds`)
  for (let i = 0; i < 1000; i++) t.ok(limiter.take(`k${i}`).allowed)
  const state = limiter.take('a')
  t.equal(rateHeaders(state)['ratelimit-remaining'], '9', 'who was not seen for long is forgotten')
  t.equal(rateHeaders(state)['retry-after'], undefined)
})

t.test('uses that are counted together expire with the last of them', async t => {
  const time = new ManualTime()
  const limiter = new RateLimiter({ limit: 2, windowMs: 1000 }, time)
  t.match(limiter.take('a'), { remaining: 1, resetMs: 1000, waitMs: 0 })
  await time.advance(40)
  t.match(limiter.take('a'), { remaining: 0, resetMs: 1000, waitMs: 1000 })
  await time.advance(970)
  t.match(limiter.take('a'), { allowed: false, waitMs: 30 })
  await time.advance(30)
  t.match(limiter.take('a'), { allowed: true, remaining: 1 })
})

t.test('a principal is of one moment', async t => {
  const { service, first, time } = await openService(t)
  const manager = await as(service, first.manager.key)
  const invited = await service.users.create(manager, { email: 'e@x.org', role: 'editor', expires_in: DAY })
  const scopes = async () => [...(await as(service, invited.key)).scopes].join(' ')
  t.equal(await scopes(), 'pipeline:read pipeline:write ingest:write user:key')
  await service.users.update(manager, invited.id, { role: 'viewer' })
  t.equal(await scopes(), 'pipeline:read user:key', 'the next request has the new role')
  await service.users.update(manager, invited.id, { role: 'manager' })
  t.match(await scopes(), /account:manage/)
  await time.advance(DAY - 1)
  t.match(await scopes(), /account:manage/)
  await time.advance(1)
  t.match(await refused(as(service, invited.key)), { status: 401, code: 'token_expired', message: /expired at 20/ })
  const again = await service.users.invite(manager, invited.id, {})
  t.ok(await as(service, again.key))
  await service.users.remove(manager, invited.id)
  t.match(await refused(as(service, again.key)), { status: 401, code: 'token_revoked' })
  t.equal(await outcome(as(service, invited.key)), '401 token_revoked')
})

t.test('what was being read while something was written is not remembered', async t => {
  const watched = new Map<string, () => void>()
  let read = (_row: object) => {}
  const store = {
    watch: (tables: readonly TableName[], forget: () => void) => {
      for (const table of tables) watched.set(table, forget)
      return () => {}
    },
    get: <R>() => new Promise<R>(resolve => (read = row => resolve(row as R))),
  }
  const grants = new Grants(store)
  const hash = Buffer.from('h')
  const row = { type: 'service_account', subject_id: 's', account_id: 'a', short_id: 'short', subject_title: '' }
  const found = { ...row, scopes: null, revoked_at: null, expires_at: null, gives_until: null }
  const reads = async (changed?: string) => {
    const reading = grants.read(hash)
    if (changed) watched.get(changed)!()
    read(found)
    t.match(await reading, { revoked: false, account: { shortId: 'short' } })
    return grants.known(hash) !== undefined
  }
  for (const table of ['account', 'person', 'service_account', 'access_key']) t.notOk(await reads(table), table)
  t.ok(await reads())
})

type Calls = Pick<Service, 'users' | 'serviceAccounts' | 'userKeys'>
t.test('nobody gives what they do not have', async t => {
  const { service, first } = await openService(t)
  const manager = await as(service, first.manager.key)
  const only = async (...scopes: Parameters<Calls['userKeys']['create']>[1]['scopes'] & object) =>
    as(service, (await service.userKeys.create(manager, { scopes })).key)
  const admin = await only('account:manage', 'user:key')
  t.same([...admin.scopes], ['user:key', 'account:manage'])
  const exceeded = '403 scope_exceeded'
  const editor = await service.users.create(manager, { email: 'e@x.org', role: 'editor' })
  const boss = await service.users.create(manager, { email: 'm@x.org', role: 'manager' })
  const viewing = await only('account:manage', 'pipeline:read', 'user:key')
  const table: [string, () => Promise<unknown>, string][] = [
    ['a service account', () => service.serviceAccounts.create(admin, {}), exceeded],
    ['one with a scope', () => service.serviceAccounts.create(admin, { scopes: ['ingest:write'] }), exceeded],
    [
      'one of the enterprise',
      () => service.serviceAccounts.create(manager, { scopes: ['enterprise:manage'] }),
      '400 invalid_request',
    ],
    ['its key', () => service.serviceAccounts.rotate(admin, first.service_account.id, {}), exceeded],
    ['a manager', () => service.users.create(admin, { email: 'x@x.org', role: 'manager' }), exceeded],
    ['a role', () => service.users.update(admin, editor.id, { role: 'manager' }), exceeded],
    ['less than a role', () => service.users.update(viewing, editor.id, { role: 'viewer' }), exceeded],
    ['less than the role of a manager', () => service.users.update(viewing, boss.id, { role: 'viewer' }), exceeded],
    ['the end of a user', () => service.users.remove(admin, editor.id), exceeded],
    ['a first key', () => service.users.invite(admin, editor.id, {}), exceeded],
    ['a wider key', () => service.userKeys.create(admin, { scopes: ['pipeline:read'] }), exceeded],
    ['enterprise:manage', () => service.userKeys.create(manager, { scopes: ['enterprise:manage'] }), exceeded],
    [
      'a key without user:key',
      async () => service.userKeys.create(await only('pipeline:read'), {}),
      '403 scope_missing',
    ],
  ]
  for (const [what, work, expected] of table) t.equal(await outcome(work()), expected, what)
  const narrow = await service.userKeys.create(admin, {})
  t.same(narrow.scopes, ['user:key', 'account:manage'], 'a narrowed key makes keys that are as narrow')
  const viewer = await service.users.create(manager, { email: 'v@x.org', role: 'viewer' })
  const whole = await service.userKeys.create(await as(service, viewer.key), { scopes: ['pipeline:read', 'user:key'] })
  const child = await service.userKeys.create(await as(service, whole.key), {})
  await service.users.update(manager, viewer.id, { role: 'manager' })
  t.same([...(await as(service, child.key)).scopes], ['pipeline:read', 'user:key'], 'and stay so with another role')
  const half = await only('account:manage', 'ingest:write')
  const made = await service.serviceAccounts.create(half, {})
  t.same(made.scopes, ['ingest:write'], 'without a wish, what the caller has')
  t.same([...(await as(service, made.key)).scopes], ['ingest:write'])
})
