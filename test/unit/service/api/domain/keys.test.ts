import { join } from 'node:path'
import t from 'tap'
import { openSqlite } from '../../../../../src/service/api/store/sqlite.js'
import { as, openService, outcome } from '../../../../support/api-service.js'
import { SERVER } from '../../../../support/postgres.js'
import { until } from '../../../../support/until.js'
import { valuesOf } from '../../../../support/values-of.js'

const PAGE = { limit: 50 }
const HOUR = 3_600_000
const DAY = 24 * HOUR

t.test('a service account has one key', async t => {
  const { service, first, time } = await openService(t)
  const manager = await as(service, first.manager.key)
  const made = await service.serviceAccounts.create(manager, { title: 'shipper', expires_in: 10 * DAY })
  const { id } = made
  t.match(made, { title: 'shipper', key: /^sts_/, account_id: first.account.id, old_key_valid_until: null })
  t.equal(made.access_key?.expires_at, new Date(time.wall() + 10 * DAY).toISOString())
  t.notOk('key' in (await service.serviceAccounts.get(manager, id)), 'it is shown once')
  const works = (key: string) => outcome(as(service, key))

  const second = await service.serviceAccounts.rotate(manager, id, {})
  t.equal(second.access_key?.expires_at, null)
  t.same([await works(made.key), await works(second.key)], ['401 token_revoked', 'done'], 'the old one stops at once')

  await time.advance(1000)
  const third = await service.serviceAccounts.rotate(manager, id, { grace: HOUR })
  t.equal(third.old_key_valid_until, new Date(time.wall() + HOUR).toISOString())
  t.same([await works(second.key), await works(third.key)], ['done', 'done'])
  t.equal((await as(service, second.key)).expiresAt, third.old_key_valid_until)
  await time.advance(HOUR)
  t.same([await works(second.key), await works(third.key)], ['401 token_expired', 'done'], 'after the grace')

  const fourth = await service.serviceAccounts.rotate(manager, id, { grace: HOUR, expires_in: 60_000 })
  const fifth = await service.serviceAccounts.rotate(manager, id, { grace: HOUR })
  t.equal(fifth.old_key_valid_until, fourth.access_key?.expires_at, 'a grace makes no key live longer')
  t.same(await Promise.all([third, fourth, fifth].map(({ key }) => works(key))), ['401 token_revoked', 'done', 'done'])

  await service.serviceAccounts.revoke(manager, id)
  t.same(await Promise.all([fourth, fifth].map(({ key }) => works(key))), Array(2).fill('401 token_revoked'))
  t.equal((await service.serviceAccounts.get(manager, id)).access_key, null)
  await service.serviceAccounts.revoke(manager, id)
  const sixth = await service.serviceAccounts.rotate(manager, id, { grace: HOUR })
  t.match(sixth, { old_key_valid_until: null })
  t.equal(await works(sixth.key), 'done', 'it can have a key again')
  await service.serviceAccounts.remove(manager, id)
  t.equal(await works(sixth.key), '401 token_revoked')
  t.equal(await outcome(service.serviceAccounts.get(manager, id)), '404 not_found')
  const titles = (await service.serviceAccounts.list(manager, PAGE)).items.map(({ title }) => title)
  t.same(titles, ['first'])
})

t.test('a key that is revoked while the clock is ahead of its end does not work again', async t => {
  const { service, first, time } = await openService(t)
  const manager = await as(service, first.manager.key)
  const [revoked, rotated] = await Promise.all(
    [0, 1].map(() => service.serviceAccounts.create(manager, { expires_in: HOUR })),
  )
  await time.advance(DAY)
  await service.serviceAccounts.revoke(manager, revoked!.id)
  await service.serviceAccounts.rotate(manager, rotated!.id, {})
  await time.advance(-DAY)
  for (const { key } of [revoked!, rotated!]) t.equal(await outcome(as(service, key)), '401 token_revoked')
})

t.test('one of the enterprise', async t => {
  const { service, first } = await openService(t)
  const own = await as(service, first.enterprise_service_account.key)
  const made = await service.serviceAccounts.create(own, { scopes: ['enterprise:manage'] })
  t.match(made, { account_id: null, key: /^ste_/, scopes: ['enterprise:manage'] })
  const narrow = await as(service, made.key)
  t.equal(await outcome(service.pipelines.list(narrow, PAGE)), '403 scope_missing')
  t.equal((await service.serviceAccounts.list(narrow, PAGE)).items.length, 2)
  const within = await as(service, first.enterprise_service_account.key, first.account.id)
  t.same(valuesOf((await service.serviceAccounts.list(within, PAGE)).items, 'id'), [first.service_account.id])
  const rotated = await service.serviceAccounts.rotate(own, first.enterprise_service_account.id, {})
  t.equal(await outcome(as(service, first.enterprise_service_account.key)), '401 token_revoked')
  t.equal(await outcome(as(service, rotated.key)), 'done', 'it can rotate its own key')
})

t.test('personal keys', async t => {
  const { service, first, time } = await openService(t, { keysPerUser: 4 })
  const manager = await as(service, first.manager.key)
  const made = await service.userKeys.create(manager, { title: 'laptop', scopes: ['pipeline:read'], expires_in: HOUR })
  t.match(made, { title: 'laptop', scopes: ['pipeline:read'], key: /^sta_/ })
  t.same([...(await as(service, made.key)).scopes], ['pipeline:read'])
  const listed = (await service.userKeys.list(manager, PAGE)).items
  t.same(valuesOf(listed, 'title'), ['first key', 'laptop'])
  t.notMatch(JSON.stringify(listed), /sta_|[0-9a-f]{40}/)
  const wide = await service.userKeys.create(manager, {})
  t.equal(wide.scopes, null)
  await service.userKeys.revoke(manager, wide.id)
  t.equal(await outcome(as(service, wide.key)), '401 token_revoked')
  t.equal(await outcome(service.userKeys.revoke(manager, wide.id)), '404 not_found')

  await service.userKeys.create(manager, {})
  await service.userKeys.create(manager, {})
  t.equal(await outcome(service.userKeys.create(manager, {})), '409 limit_reached')
  await time.advance(HOUR)
  t.equal(await outcome(as(service, made.key)), '401 token_expired')
  t.ok(await service.userKeys.create(manager, {}), 'expired ones make room')
  t.equal((await service.userKeys.list(manager, PAGE)).items.length, 4)
  t.equal(await outcome(service.userKeys.create(manager, {})), '409 limit_reached')
  await service.userKeys.revoke(manager, manager.keyId)
  t.equal(await outcome(as(service, first.manager.key)), '401 token_revoked', 'also the one that asks')
})

t.test('a key makes none that lasts longer than itself', async t => {
  const { service, first, time } = await openService(t)
  const root = await as(service, first.manager.key)
  const made = await service.userKeys.create(root, { expires_in: HOUR })
  const own = await as(service, made.key)
  const end = made.expires_at
  const enterprise = await as(service, first.enterprise_service_account.key)
  const mortal = await as(
    service,
    (await service.serviceAccounts.rotate(enterprise, first.enterprise_service_account.id, { expires_in: HOUR })).key,
  )
  const account = await service.serviceAccounts.create(root, {})
  const user = await service.users.create(root, { email: 'u@x.org', role: 'viewer' })
  const whole = await service.serviceAccounts.create(own, {})
  t.same(
    [
      (await service.userKeys.create(own, {})).expires_at,
      whole.access_key?.expires_at,
      (await service.serviceAccounts.rotate(own, account.id, {})).access_key?.expires_at,
      (await service.users.create(own, { email: 'v@x.org', role: 'viewer' })).expires_at,
      (await service.users.invite(own, user.id, {})).expires_at,
      (await service.serviceAccounts.create(mortal, {})).access_key?.expires_at,
      (await service.accounts.create(mortal, { title: 'a', manager: { email: 'm@x.org' } })).manager?.expires_at,
    ],
    Array(7).fill(end),
    'without a wish, as long as itself',
  )
  for (const expires_in of [HOUR + 1, 100 * DAY]) {
    for (const call of [
      () => service.userKeys.create(own, { expires_in }),
      () => service.serviceAccounts.create(own, { expires_in }),
      () => service.serviceAccounts.rotate(own, account.id, { expires_in }),
      () => service.users.create(own, { email: 'w@x.org', role: 'viewer', expires_in }),
      () => service.users.invite(own, user.id, { expires_in }),
    ])
      t.equal(await outcome(call()), '403 end_exceeded')
  }
  const invited = await service.users.invite(own, user.id, { expires_in: 1000 })
  const guest = await as(service, invited.key)
  t.equal((await service.userKeys.create(guest, {})).expires_at, end, 'an invitation gives what its maker could give')
  const lasting = await service.users.create(root, { email: 'x@x.org', role: 'viewer' })
  const theirs = await service.userKeys.create(await as(service, lasting.key), {})
  t.equal(theirs.expires_at, null)
  await time.advance(HOUR)
  t.equal(await outcome(as(service, whole.key)), '401 token_expired')
  await time.advance(7 * DAY)
  t.equal(await outcome(as(service, lasting.key)), '401 token_expired')
  t.equal(await outcome(as(service, theirs.key)), 'done', 'what was made with an invitation outlives it')
})

t.test('revoking a key revokes what was made with it', async t => {
  const { service, first } = await openService(t)
  const root = await as(service, first.manager.key)
  const child = async (of: string) => service.userKeys.create(await as(service, of), {})
  const a = await child(first.manager.key)
  const b = await child(a.key)
  const c = await child(b.key)
  const d = await child(a.key)
  const machine = await service.serviceAccounts.create(await as(service, a.key), {})
  const states = (...keys: { key: string }[]) => Promise.all(keys.map(({ key }) => outcome(as(service, key))))
  const [works, revoked] = ['done', '401 token_revoked']
  const late = await as(service, d.key)

  await service.userKeys.revoke(await as(service, b.key), a.id)
  t.same(
    await states(a, b, c, d, machine),
    [revoked, works, works, revoked, works],
    'the key that asks takes its place',
  )
  t.equal(await outcome(service.userKeys.create(late, {})), revoked, 'also a request that is under way')
  const listed = (await service.userKeys.list(root, PAGE)).items.map(({ id }) => id)
  t.same(listed, [root.keyId, b.id, c.id])
  const entries = (await service.audit.list(root, PAGE)).items
  t.match(entries.find(({ action }) => action === 'user_key.revoke')?.details, { also_revoked: d.id })

  await service.userKeys.revoke(root, b.id)
  t.same(await states(b, c), [revoked, revoked], 'all the way down')
  const e = await child(first.manager.key)
  await service.userKeys.revoke(await as(service, e.key), root.keyId)
  t.same(await states(first.manager, e), [revoked, works])
})

t.test('a key that comes to its end is warned of, and long after it forgotten', async t => {
  const { service, first, time, logged } = await openService(t)
  const manager = await as(service, first.manager.key)
  const short = await service.userKeys.create(manager, { expires_in: 10 * HOUR })
  const long = await service.serviceAccounts.create(manager, { expires_in: 100 * DAY })
  const gone = await service.userKeys.create(manager, {})
  await service.userKeys.revoke(manager, gone.id)
  const warnings = () => logged.filter(({ msg }) => msg === 'an access key expires soon; rotate it')
  const after = async (ms: number) => {
    await time.advance(ms)
    await service.sweep()
    const { keysExpiringSoon, keysExpired } = service.counts()
    return [warnings().length, keysExpiringSoon, keysExpired]
  }
  t.same(await after(0), [0, 0, 0])
  t.same(await after(7 * HOUR), [0, 0, 0])
  t.same(await after(HOUR), [1, 1, 0], 'at a fifth of its life')
  t.match(warnings()[0], {
    level: 40,
    key_id: short.id,
    type: 'personal',
    subject: first.manager.id,
    account: first.account.id,
    expires_at: short.expires_at,
  })
  t.same(await after(HOUR), [1, 1, 0], 'once')
  t.same(await after(HOUR), [1, 0, 1])
  t.same(await after(92 * DAY), [1, 0, 0], 'forgotten; the long one is not warned of yet')
  t.equal(await outcome(as(service, short.key)), '401 token_unknown')
  t.equal(await outcome(as(service, gone.key)), '401 token_unknown')
  t.same(await after(DAY), [2, 1, 0], 'a week before')
  t.same(await after(DAY), [3, 1, 0], 'once a day')
  await service.serviceAccounts.rotate(manager, long.id, {})
  t.same(await after(DAY), [3, 0, 0])
  t.equal(await outcome(as(service, long.key)), '401 token_revoked')
  t.same((await service.userKeys.list(manager, PAGE)).items.length, 1)
  await time.advance(31 * DAY)
  await service.sweep()
  t.equal(await outcome(as(service, long.key)), '401 token_unknown')
  const used = [first.manager, first.service_account, first.enterprise_service_account]
  for (const { key } of used) t.equal(await outcome(as(service, key)), 'done', 'one that is in use')
})

const ofSqlite = { skip: process.env[SERVER] ? 'PostgreSQL has a test of its own' : false }
t.test('a key that another process revokes is refused within a second', ofSqlite, async t => {
  const { service, first, again } = await openService(t)
  const store = await openSqlite(join(t.testdirName, 'store'))
  t.teardown(() => store.close())
  const other = await again(undefined, store)
  const manager = await as(other, first.manager.key)
  const { key, id } = await other.serviceAccounts.create(manager, {})
  t.equal(await outcome(as(service, key)), 'done', 'it is known at once')
  await other.serviceAccounts.revoke(manager, id)
  await until('the end of the key', async () => (await outcome(as(service, key))) === '401 token_revoked')
})

t.test('the last use', async t => {
  const { service, first, time, again, written } = await openService(t)
  const manager = await as(service, first.manager.key)
  const made = await service.serviceAccounts.create(manager, {})
  const { length } = written
  const lastUse = async (of = service) => (await of.serviceAccounts.get(manager, made.id)).access_key?.last_used_at
  t.equal(await lastUse(), null)
  await time.advance(5000)
  await as(service, made.key)
  const used = new Date(time.wall()).toISOString()
  t.equal(await lastUse(), used)
  t.equal(written.length, length, 'no write for a request')
  await time.advance(HOUR)
  await as(service, made.key)
  await service.flush()
  await time.advance(-HOUR)
  await as(service, made.key)
  await service.close()
  t.equal(await lastUse(await again()), used)
})

t.test('what the store cannot write is kept until it can', async t => {
  const { service, first, time, again, disk } = await openService(t)
  const manager = await as(service, first.manager.key)
  const used = new Date(time.wall()).toISOString()
  await time.advance(5000)
  disk.writesLeft = 0
  await t.rejects(service.flush(), { message: /no space left/ })
  const failed = await service.init().catch(error => error.code)
  t.equal(failed, 'already_initialized')
  disk.writesLeft = Number.POSITIVE_INFINITY
  await service.flush()
  t.equal((await (await again()).userKeys.list(manager, PAGE)).items[0]?.last_used_at, used)
})

t.test('no key is ever written, logged or told', async t => {
  const { service, first, written, logged, time } = await openService(t)
  const manager = await as(service, first.manager.key)
  const keys = [first.manager.key, first.service_account.key, first.enterprise_service_account.key]
  const user = await service.users.create(manager, { email: 'a@b.c', role: 'editor' })
  const account = await service.serviceAccounts.create(manager, { expires_in: DAY })
  keys.push(user.key, account.key, (await service.users.invite(manager, user.id, {})).key)
  keys.push((await service.serviceAccounts.rotate(manager, account.id, { grace: HOUR })).key)
  keys.push((await service.userKeys.create(manager, { expires_in: 2 * DAY })).key)
  await time.advance(DAY * 1.9)
  await service.sweep()
  await service.flush()
  t.equal(new Set(keys).size, 8)
  const errors = await Promise.all(keys.map(key => as(service, `${key.slice(0, -1)}g`).catch(error => error)))
  const told = errors.map(error => `${error.stack} ${JSON.stringify(error)}`).join('\n')
  const all = `${written.join('\n')}\n${JSON.stringify(logged)}\n${told}`
  t.ok(logged.length > 0)
  for (const key of keys) t.notOk(all.includes(key.slice(4, -1)))
  t.notMatch(JSON.stringify((await service.audit.list(manager, { limit: 100 })).items), /st[sea]_|[0-9a-f]{40}/)
})
