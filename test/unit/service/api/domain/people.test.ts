import t from 'tap'
import type { z } from 'zod'
import * as inputs from '../../../../../src/daemon/client/inputs.js'
import { Turns } from '../../../../../src/lib/turns.js'
import { Ids, idAt } from '../../../../../src/service/api/domain/ids.js'
import { as, openService, outcome } from '../../../../support/api-service.js'
import { ManualTime } from '../../../../support/manual-time.js'
import { valuesOf } from '../../../../support/values-of.js'

const PAGE = { limit: 50 }
const DAY = 86_400_000
const config = { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } } }

t.test('users', async t => {
  const { service, first } = await openService(t, { users: 3 })
  const manager = await as(service, first.manager.key)
  const { users } = service
  const made = await users.create(manager, { email: 'a@x.org', role: 'viewer', title: 'A' })
  t.match(made, { email: 'a@x.org', title: 'A', role: 'viewer', account_id: first.account.id, key: /^sta_/ })
  t.equal(Date.parse(made.expires_at!) - Date.parse(made.created_at), 7 * DAY)
  t.notOk('key' in (await users.get(manager, made.id)))
  const same = Array.from({ length: 3 }, () => outcome(users.create(manager, { email: 'b@x.org', role: 'viewer' })))
  t.same((await Promise.all(same)).sort(), ['409 email_taken', '409 email_taken', 'done'])
  t.equal(await outcome(users.create(manager, { email: 'c@x.org', role: 'viewer' })), '409 limit_reached')

  t.equal(await outcome(users.update(manager, first.manager.id, { role: 'editor' })), '409 last_manager')
  t.equal(await outcome(users.remove(manager, first.manager.id)), '409 last_manager')
  t.match(await users.update(manager, made.id, { role: 'manager', title: 'Boss' }), { role: 'manager', title: 'Boss' })
  const both = await Promise.all([
    outcome(users.update(manager, first.manager.id, { role: 'editor' })),
    outcome(users.update(manager, made.id, { role: 'editor' })),
  ])
  t.same(both, ['done', '409 last_manager'], 'one is left')
  t.equal(await outcome(users.list(await as(service, first.manager.key), PAGE)), '403 scope_missing')
  const other = await as(service, made.key)
  await users.remove(other, first.manager.id)
  t.equal(await outcome(as(service, first.manager.key)), '401 token_revoked')
  t.ok(await users.create(other, { email: 'first@example.com', role: 'viewer' }), 'the address is free again')
})

t.test('accounts', async t => {
  const { service, first } = await openService(t, { accounts: 3 })
  const enterprise = await as(service, first.enterprise_service_account.key)
  const child = await service.accounts.create(enterprise, { title: 'child', manager: { email: 'm@x.org', title: 'M' } })
  t.match(child, { title: 'child', enterprise_id: first.enterprise.id, features: { throttle: false } })
  t.not(child.short_id, first.account.short_id)
  t.match(child.manager, { email: 'm@x.org', role: 'manager', account_id: child.id, expires_at: /^20/ })
  t.notOk('manager' in (await service.accounts.create(enterprise, { title: 'third' })))
  t.equal(await outcome(service.accounts.create(enterprise, { title: 'fourth' })), '409 limit_reached')
  const manager = await as(service, child.manager!.key)
  t.match(await service.accounts.current(manager), { id: child.id, title: 'child' })
  const made = await service.users.create(manager, { email: 'first@example.com', role: 'viewer' })
  t.ok(made, 'an address is taken in one account only')
})

t.test('pages', async t => {
  const { service, first } = await openService(t)
  const me = await as(service, first.service_account.key)
  for (let i = 0; i < 7; i++) await service.pipelines.create(me, { title: `p${i}`, config })
  for (const limit of [1, 2, 3, 7, 8]) {
    const titles: string[] = []
    let after: string | undefined
    let pages = 0
    do {
      const page = await service.pipelines.list(me, { limit, after })
      t.ok(page.items.length <= limit)
      titles.push(...page.items.map(({ title }) => title))
      after = page.next ?? undefined
      pages++
    } while (after !== undefined)
    t.same(titles, ['p0', 'p1', 'p2', 'p3', 'p4', 'p5', 'p6'], `by ${limit}`)
    t.equal(pages, Math.ceil(7 / limit))
  }
  const enterprise = await as(service, first.enterprise_service_account.key)
  const page = await service.pipelines.list(enterprise, { limit: 5 })
  t.equal((await service.pipelines.list(enterprise, { limit: 5, after: page.next! })).items.length, 2)
  const strange: [string, number][] = [
    ['../', 7],
    ['0', 7],
    ['zzz', 0],
    ['\uffff', 0],
  ]
  for (const [after, length] of strange) {
    t.equal((await service.pipelines.list(me, { limit: 9, after })).items.length, length, after)
  }
})

t.test('the audit log', async t => {
  const { service, first, time } = await openService(t)
  const manager = await as(service, first.manager.key)
  const enterprise = await as(service, first.enterprise_service_account.key)
  const entries = async (who = manager) => (await service.audit.list(who, { limit: 100 })).items
  t.same(await entries(), [])
  t.match(await entries(enterprise), [{ action: 'enterprise.init', actor: { type: 'command' }, account_id: null }])
  const user = await service.users.create(manager, { email: 'u@x.org', role: 'viewer' })
  await service.users.update(manager, user.id, { role: 'editor' })
  await service.users.invite(manager, user.id, {})
  await service.users.remove(manager, user.id)
  const account = await service.serviceAccounts.create(manager, {})
  await service.serviceAccounts.rotate(manager, account.id, {})
  await service.serviceAccounts.revoke(manager, account.id)
  await service.serviceAccounts.remove(manager, account.id)
  const key = await service.userKeys.create(manager, {})
  await service.userKeys.revoke(manager, key.id)
  await service.accounts.setFeature(manager, 'throttle', true)
  const { id } = (await service.pipelines.create(manager, { title: 'p', config })).document
  await service.pipelines.update(manager, id, { config: { ...config, shutdown_timeout: '1s' } })
  await service.pipelines.publish(manager, id, {})
  await service.pipelines.publish(manager, id, { revision: 1 })
  await service.pipelines.remove(manager, id)
  await service.accounts.create(enterprise, { title: 'child' })
  const found = await entries()
  t.same(found.map(({ action }) => action).reverse(), [
    ...['user.create', 'user.update', 'user.invite', 'user.remove'],
    ...['create', 'rotate', 'revoke', 'remove'].map(what => `service_account.${what}`),
    ...['user_key.create', 'user_key.revoke', 'account.feature'],
    ...['create', 'update', 'publish', 'rollback', 'remove'].map(what => `pipeline.${what}`),
  ])
  t.match(found.at(-2), {
    at: new Date(time.wall()).toISOString(),
    actor: { type: 'personal', id: first.manager.id, email: 'first@example.com', key_id: manager.keyId },
    enterprise_id: first.enterprise.id,
    account_id: first.account.id,
    target: { type: 'user', id: user.id },
    details: { role: 'editor', role_before: 'viewer' },
    address: '192.0.2.1',
    request_id: 'r-1',
  })
  t.match((await entries(enterprise))[0], { action: 'account.create', details: { title: 'child' } })
  const half = await service.audit.list(manager, { limit: 9 })
  const rest = await service.audit.list(manager, { limit: 9, after: half.next! })
  t.same([...half.items, ...rest.items], found)

  t.equal(await outcome(service.users.update(manager, first.manager.id, { role: 'viewer' })), '409 last_manager')
  t.equal((await entries()).length, found.length, 'what was refused was not done')
  await time.advance(399 * DAY)
  await service.accounts.setFeature(manager, 'throttle', false)
  await service.sweep()
  t.equal((await entries()).length, found.length + 1)
  await time.advance(2 * DAY)
  await service.sweep()
  t.same(valuesOf(await entries(), 'action'), ['account.feature'])
  t.same(await entries(enterprise), [])
})

t.test('inputs are bounded', async t => {
  const table: [z.ZodType, unknown, boolean][] = [
    [inputs.accountInput, { title: 'x' }, true],
    [inputs.accountInput, { title: ' '.repeat(9) }, false],
    [inputs.accountInput, { title: 'x'.repeat(201) }, false],
    [inputs.accountInput, { title: 'a\nb' }, false],
    [inputs.accountInput, { title: 'a\u202eb' }, false],
    [inputs.accountInput, { title: 'x', more: 1 }, false],
    [inputs.userInput, { email: 'a@b', role: 'viewer' }, true],
    [inputs.userInput, { email: 'a@b', role: 'owner' }, false],
    [inputs.userInput, { email: 'a b@c', role: 'viewer' }, false],
    [inputs.userInput, { email: 'a@b@c', role: 'viewer' }, false],
    [inputs.userInput, { email: 'a@b\r\nX: y', role: 'viewer' }, false],
    [inputs.userInput, { email: `${'a'.repeat(65)}@b`, role: 'viewer' }, false],
    [inputs.userInput, { email: `a@${'b'.repeat(300)}`, role: 'viewer' }, false],
    [inputs.userKeyInput, {}, true],
    [inputs.userKeyInput, { scopes: [] }, false],
    [inputs.userKeyInput, { scopes: ['nope'] }, false],
    [inputs.userKeyInput, { expires_in: 0 }, false],
    [inputs.userKeyInput, { expires_in: 0.5 }, false],
    [inputs.userKeyInput, { expires_in: 1 }, true],
    [inputs.userKeyInput, { expires_in: 1e12 }, false],
    [inputs.userKeyInput, { expires_in: Number.POSITIVE_INFINITY }, false],
    [inputs.rotateInput, { grace: '1 Hours' }, true],
    [inputs.rotateInput, { grace: 0 }, true],
    [inputs.rotateInput, { grace: '0s' }, true],
    [inputs.rotateInput, { expires_in: 0 }, false],
    [inputs.rotateInput, { grace: '1000 Hours' }, false],
    [inputs.publishInput, { revision: 0 }, false],
    [inputs.pipelineInput, { title: 'x', config: [] }, false],
    [inputs.pipelineInput, { title: 'x', config: {} }, true],
    [inputs.pageQuery, { limit: '100' }, true],
    [inputs.pageQuery, { limit: '101' }, false],
    [inputs.pageQuery, { limit: 'x' }, false],
    [inputs.pageQuery, { after: 'x'.repeat(201) }, false],
  ]
  for (const [schema, input, fine] of table)
    t.equal(schema.safeParse(input).success, fine, JSON.stringify(input).slice(0, 80))
  t.same(inputs.userKeyInput.parse({ expires_in: 90, scopes: ['pipeline:read', 'pipeline:read'] }), {
    expires_in: 90_000,
    scopes: ['pipeline:read'],
  })
  t.equal(inputs.rotateInput.parse({ grace: { value: 2, unit: 'Minutes' } }).grace, 120_000)
  t.equal(inputs.userInput.parse({ email: 'A@B.Org', role: 'viewer' }).email, 'a@b.org')
  const report = {
    ...{ daemon_id: 'a', pipeline_id: '0'.repeat(24), host: 'h', version: '1', revision: null, health: 'ready' },
    totals: { received: 1 },
  }
  t.ok(inputs.reportInput.safeParse(report).success)
  const names = Array.from({ length: 65 }, (_, i) => [`n${i}`, 1])
  const wrong = [
    { daemon_id: 'a/b' },
    { daemon_id: '' },
    { health: 'fine' },
    { error: 'x'.repeat(1001) },
    { totals: Object.fromEntries(names) },
    { totals: { received: -1 } },
    { totals: { 'a b': 1 } },
    { started_at: 'yesterday' },
  ]
  for (const part of wrong)
    t.notOk(inputs.reportInput.safeParse({ ...report, ...part }).success, JSON.stringify(part).slice(0, 60))
})

t.test('ids', async t => {
  const time = new ManualTime()
  let n = 0
  const ids = new Ids(time, bytes => Buffer.alloc(bytes, n++))
  const made = Array.from({ length: 100 }, () => ids.next())
  t.same(made.toSorted(), made)
  t.match(made, Array(100).fill(/^[0-9a-f]{24}$/))
  t.ok(made[0]! >= idAt(time.wall()) && made[0]! < idAt(time.wall() + 1))
  for (let i = 0; i < 300; i++) t.match(ids.short(), /^[0-9a-z]{9}$/)
})

t.test('turns', async t => {
  const turns = new Turns()
  const log: string[] = []
  const work = (key: string, name: string) =>
    turns.take(key, async () => {
      log.push(`${name}>`)
      await new Promise(setImmediate)
      log.push(`>${name}`)
      if (name === 'b') throw new Error('b')
    })
  const results = await Promise.allSettled([work('x', 'a'), work('x', 'b'), work('y', 'c'), work('x', 'd')])
  t.same(
    log.filter(entry => !entry.includes('c')),
    ['a>', '>a', 'b>', '>b', 'd>', '>d'],
  )
  t.ok(log.indexOf('c>') < log.indexOf('>a'), 'another key does not wait')
  t.same(valuesOf(results, 'status'), ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
})
