import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { Recent } from '../../../../src/service/api/store/recent.js'
import { openSqlite, SERVED_STORE } from '../../../../src/service/api/store/sqlite.js'
import { WriterThread } from '../../../../src/service/api/store/sqlite-thread.js'
import { openState, restoreState } from '../../../../src/service/api/store/state.js'
import type { Store, TableName } from '../../../../src/service/api/store/store.js'
import { testFolder } from '../../../support/folder.js'
import { openTestStore, SERVER } from '../../../support/postgres.js'
import { put, settingOf } from '../../../support/settings.js'
import { until } from '../../../support/until.js'

const log = pino({ enabled: false })

async function opened(
  t: Test,
  open: (folder: string) => Promise<Store> = openSqlite,
): Promise<{ store: Store; path: string }> {
  const path = join(testFolder(t), 'deep', 'store')
  const store = await open(path)
  t.teardown(() => store.close())
  return { store, path }
}

const addEnterprise = 'INSERT INTO enterprise (id, title, created_at) VALUES ($1, $2, $3)'

/** What every store must do. */
const inThread = (folder: string) => openSqlite(folder, undefined, undefined, SERVED_STORE)
const STORES = process.env[SERVER]
  ? ([['postgresql', openTestStore]] as const)
  : ([
      ['sqlite', openTestStore],
      ['sqlite in a thread', inThread],
    ] as const)
for (const [name, open] of STORES) {
  t.test(`${name}: reads what was written, once it was`, async t => {
    const { store } = await opened(t, open)
    t.equal(await settingOf(store, 'a'), undefined)
    const text = 'ä\u2028 ${x} \'"'
    await store.change('', async sql => {
      t.equal(await put(sql, 'a', text), 1)
      t.equal(await settingOf(sql, 'a'), text, 'the change sees it')
      t.equal(await settingOf(store, 'a'), undefined, 'nobody else')
    })
    t.equal(await settingOf(store, 'a'), text)
    t.equal(await store.run('DELETE FROM setting WHERE name = $1', 'a'), 1)
    t.equal(await store.run('DELETE FROM setting WHERE name = $1', 'a'), 0)
    t.same(await store.all('SELECT name FROM setting'), [])
    for (const n of ['b', 'a', 'B', 'ä', 'Z1', 'Z']) await put(store, n, n)
    const names = (await store.all<{ name: string }>('SELECT name FROM setting ORDER BY name')).map(({ name }) => name)
    t.same(names, ['B', 'Z', 'Z1', 'a', 'b', 'ä'], 'by the bytes of their names')
  })

  t.test(`${name}: a change is all or nothing`, async t => {
    const { store } = await opened(t, open)
    const refused = store.change('', async sql => {
      await put(sql, 'half', 'x')
      throw new Error('refused')
    })
    await Promise.all([put(store, 'a', '1'), t.rejects(refused, { message: 'refused' }), put(store, 'b', '1')])
    await t.rejects(
      store.change('', async sql => {
        await put(sql, 'half', 'x')
        for (let n = 0; n < 2; n++) await sql.run(addEnterprise, 'same', '', '')
      }),
      { message: /unique/i },
      'a mistake of one change is not one of the store',
    )
    t.same(await store.all('SELECT name FROM setting ORDER BY name'), [{ name: 'a' }, { name: 'b' }])
    t.match(store.health(), { writable: true, failedWrites: 0 })
  })

  t.test(`${name}: changes run one after the other`, async t => {
    const { store } = await opened(t, open)
    await put(store, 'n', '0')
    const add = () =>
      store.change('', async sql => {
        const n = Number(await settingOf(sql, 'n'))
        await Promise.resolve()
        await put(sql, 'n', String(n + 1))
        return n
      })
    const before = await Promise.all(Array.from({ length: 50 }, add))
    t.same(
      before,
      Array.from({ length: 50 }, (_, n) => n),
    )
    t.equal(await settingOf(store, 'n'), '50')
  })

  t.test(`${name}: a snapshot is one moment`, async t => {
    const { store } = await opened(t, open)
    await put(store, 'a', '1')
    const seen = await store.snapshot(async sql => {
      const before = await settingOf(sql, 'a')
      await put(store, 'a', '2')
      return [before, await settingOf(sql, 'a')]
    })
    t.same(seen, ['1', '1'])
    t.equal(await settingOf(store, 'a'), '2')
  })

  t.test(`${name}: tells of changes before they resolve`, async t => {
    const { store } = await opened(t, open)
    const heard: TableName[] = []
    for (const table of ['account', 'person', 'secret'] as const) store.watch([table], () => heard.push(table))
    const hears = async (work: Parameters<Store['change']>[1]) => {
      await store.change('', work).catch(() => {})
      return heard.splice(0)
    }
    const remove = (table: string) => `DELETE FROM ${table} WHERE id = $1`
    t.same(await hears(sql => sql.run(remove('person'), 'x')), ['person'])
    t.same(
      await hears(async sql => {
        await sql.run(remove('account'), 'x')
        await sql.all(`${remove('secret')} RETURNING id`, 'x')
      }),
      ['account', 'secret'],
    )
    t.same(await hears(sql => sql.get('SELECT id FROM account')), [])
    t.same(await hears(sql => put(sql, 'a', 'b')), [])
  })

  t.test(`${name}: it is there again when it is opened again`, async t => {
    const { store, path } = await opened(t, open)
    await put(store, 'a', '1')
    const late = put(store, 'b', '2')
    await store.close()
    await late
    await t.rejects(settingOf(store, 'c'), { code: 'SLUICE_STORE_UNUSABLE' })
    await t.rejects(put(store, 'c', '3'), { code: 'SLUICE_STORE_UNUSABLE' })
    const again = await open(path)
    t.same(
      [await settingOf(again, 'a'), await settingOf(again, 'b'), await settingOf(again, 'c')],
      ['1', '2', undefined],
    )
    await again.close()
  })

  t.test(`${name}: a backup is one moment of it`, { skip: name === 'postgresql' }, async t => {
    const { store, path } = await opened(t, open)
    for (let i = 0; i < 300; i++) await put(store, `k/${i}`, 'x'.repeat(500))
    const pair = (n: number) =>
      store.change('', async sql => {
        for (const side of ['a', 'b']) await put(sql, side, String(n))
      })
    const target = join(dirname(path), 'copy')
    const changes = Array.from({ length: 30 }, (_, n) => pair(n))
    await Promise.all([store.backup(target), ...changes])
    await t.rejects(store.backup(target), { code: 'SLUICE_STORE_UNUSABLE', message: /already exists/ })
    const copy = await open(target)
    t.equal(await settingOf(copy, 'a'), await settingOf(copy, 'b'))
    t.match(await copy.get("SELECT count(*) AS count FROM setting WHERE name LIKE 'k/%'"), { count: 300 })
    await copy.close()
  })

  t.test(`${name}: what another process changes is seen within a second`, async t => {
    const { store, path } = await opened(t, open)
    const other = await open(path)
    t.teardown(() => other.close())
    const change = (store: Store, name: string) =>
      store.change('', async sql => {
        await put(sql, name, '1')
        await sql.run('DELETE FROM access_key WHERE id = $1', 'x')
      })
    let heard = 0
    store.watch(['access_key'], () => heard++)
    await change(other, 'a')
    await until('the change', () => heard > 0)
    t.equal(await settingOf(store, 'a'), '1')
    await put(store, 'b', '1')
    heard = 0
    await change(other, 'c')
    await until('the next one', () => heard > 0)
  })
}

t.test('a thread that writes answers with errors, too', async t => {
  const folder = testFolder(t)
  const nowhere = new WriterThread(join(folder, 'missing', 'file'))
  await t.rejects(async () => nowhere.exec('SELECT 1'), { message: /unable to open/, errcode: 14 })
  await nowhere.close().catch(() => {})
  const thread = new WriterThread(join(folder, 'file'))
  await thread.exec('CREATE TABLE one (a)')
  await t.rejects(thread.execute('run', 'INSERT INTO two VALUES ($1)', ['x']), { message: /no such table/, errcode: 1 })
  t.equal(await thread.exec('SELECT 1'), undefined)
  await thread.close()
  await t.rejects(thread.exec('SELECT 1'), { message: /the thread that writes has ended/ })
})

t.test('changes of one moment share a sync', async t => {
  const { store, path } = await opened(t)
  const bytes = () => statSync(join(path, 'store.sqlite-wal')).size
  await put(store, 'a', '0')
  const before = bytes()
  await put(store, 'a', '1')
  const one = bytes() - before
  await Promise.all(Array.from({ length: 20 }, (_, n) => put(store, 'a', String(n))))
  t.equal(bytes() - before, 2 * one, 'twenty take no more of the log than one')
})

const random = (fill: number) => (bytes: number) => Buffer.alloc(bytes, fill)

t.test('the data_dir: a store and its secret, which belong together', async t => {
  const dir = join(testFolder(t), 'state')
  const state = await openState(dir, random(1), { log })
  t.equal(state.secret.toString('hex'), '01'.repeat(32))
  t.equal(statSync(join(dir, 'secret')).mode & 0o777, 0o600)
  t.equal(statSync(join(dir, 'store')).mode & 0o777, 0o700)
  await t.rejects(openState(dir, random(2), { log }), {
    code: 'SLUICE_STORE_IN_USE',
    message: /in use by another sluice, process \d+; stop that process, or configure another data_dir/,
  })
  const beside = await openState(dir, random(2), { log, beside: true })
  t.same(beside.secret, state.secret, 'a command may open it nevertheless')
  await beside.close()
  await put(state.store, 'a', '1')
  await state.close()
  const again = await openState(dir, random(2), { log })
  t.same(again.secret, state.secret, 'it stays')
  await again.close()

  const secret = readFileSync(join(dir, 'secret'))
  const unusable = (message: RegExp) =>
    t.rejects(openState(dir, random(3), { log }), { code: 'SLUICE_STORE_UNUSABLE', message })
  writeFileSync(join(dir, 'secret'), '03'.repeat(32))
  await unusable(/not the secret that this store was made with/)
  writeFileSync(join(dir, 'secret'), 'short')
  await unusable(/does not hold a secret/)
  rmSync(join(dir, 'secret'))
  await unusable(/secret is missing, and no key works without it; restore it/)
  t.notOk(existsSync(join(dir, 'secret')))
  writeFileSync(join(dir, 'secret'), secret)
  chmodSync(join(dir, 'secret'), 0o640)
  await unusable(/other users can read .*secret; run: chmod 600 .*secret$/)
  rmSync(join(dir, 'secret'))
  spawnSync('mkfifo', ['-m', '600', join(dir, 'secret')])
  await unusable(/secret is not a file/)
  rmSync(join(dir, 'secret'))
  writeFileSync(join(dir, 'secret'), secret, { mode: 0o600 })
  await (await openState(dir, random(3), { log })).close()
})

t.test('a command of root leaves the files to the user of the service', { skip: process.getuid!() !== 0 }, async t => {
  const dir = join(testFolder(t), 'state')
  await (await openState(dir, random(1), { log })).close()
  const user = 65534
  const files = () => readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter(name => !/lock/.test(name))
  for (const name of files()) chownSync(join(dir, name), user, user)
  const state = await openState(dir, random(1), { log, beside: true })
  await put(state.store, 'a', '1')
  t.ok(files().includes('store/store.sqlite-wal'))
  for (const name of files()) t.equal(statSync(join(dir, name)).uid, user, name)
  await state.close()
})

t.test('backup and restore', async t => {
  const dir = testFolder(t, { broken: {} })
  const state = await openState(join(dir, 'one'), random(1), { log })
  await put(state.store, 'a', '1')
  await state.backup(join(dir, 'backup'))
  await t.rejects(state.backup(join(dir, 'backup')), { code: 'SLUICE_STORE_UNUSABLE', message: /does not exist yet/ })
  await t.rejects(state.backup(join(dir, 'no', 'such')), { message: /ENOENT/ })
  symlinkSync(join(dir, 'one/store'), join(dir, 'link'))
  for (const inside of ['one/backup', 'one/store/backup', 'link/backup'])
    await t.rejects(state.backup(join(dir, inside)), { message: /is in data_dir; name a folder outside of it/ }, inside)
  await put(state.store, 'a', '2')
  const refused = (from: string, to: string, message: RegExp, replace = false) =>
    t.rejects(restoreState(join(dir, from), join(dir, to), { replace }), { message })
  for (const replace of [false, true]) await refused('backup', 'one', /in use by another/, replace)
  await state.close()
  await refused('backup', 'one', /exists; restore into an empty data_dir/)
  const modes = (name: string) => {
    const paths = readdirSync(join(dir, name), { recursive: true }).map(path => statSync(join(dir, name, String(path))))
    return [...new Set(paths.map(found => `${found.isFile() ? 'file' : 'folder'} ${(found.mode & 0o777).toString(8)}`))]
  }
  t.same(modes('backup').sort(), ['file 600', 'folder 700'])

  const valueIn = async (name: string) => {
    const restored = await openState(join(dir, name), random(9), { log })
    const value = await settingOf(restored.store, 'a')
    t.same(restored.secret, state.secret)
    await restored.close()
    return value
  }
  for (const name of ['two', 'three']) {
    await restoreState(join(dir, 'backup'), join(dir, name))
    t.same(modes(name).sort(), ['file 600', 'folder 700'])
    t.equal(await valueIn(name), '1', 'a backup can be restored more than once')
  }
  t.equal(await valueIn('one'), '2')
  await restoreState(join(dir, 'backup'), join(dir, 'one'), { replace: true })
  t.equal(await valueIn('one'), '1')
  t.equal(await valueIn('one/replaced-1'), '2', 'what was there is kept')

  for (const target of ['/etc/passwd', join(dir, 'elsewhere'), '/nowhere']) {
    symlinkSync(target, join(dir, 'backup', 'store', 'link'))
    await refused('backup', 'four', /store\/link is neither a file nor a folder/)
    t.notOk(existsSync(join(dir, 'four', 'store')))
    rmSync(join(dir, 'backup', 'store', 'link'))
  }
  await refused('broken', 'four', /not a complete backup: it has no secret/)
  mkdirSync(join(dir, 'broken', 'store'))
  writeFileSync(join(dir, 'broken', 'secret'), '05'.repeat(32), { mode: 0o600 })
  await refused('broken', 'four', /its store is empty/)
  await refused('broken', 'one', /its store is empty/, true)
  writeFileSync(join(dir, 'backup', 'secret'), '05'.repeat(32), { mode: 0o600 })
  await refused('backup', 'one', /do not belong together/, true)
  writeFileSync(join(dir, 'backup', 'secret'), state.secret.toString('hex'), { mode: 0o600 })
  const file = join(dir, 'backup/store/store.sqlite')
  const bytes = readFileSync(file)
  for (const damaged of [bytes.subarray(0, -4096), bytes.map((byte, i) => (i > 4096 && i < 4200 ? byte ^ 1 : byte))]) {
    writeFileSync(file, damaged)
    await refused('backup', 'one', /backup is not restored, because its store is damaged: .*backup\/store/, true)
  }
  writeFileSync(file, bytes)
  t.equal(await valueIn('one'), '1', 'a backup that is not right changes nothing')
})

t.test('what is remembered of reads is bounded', async t => {
  const recent = new Recent<number>(100)
  for (let i = 0; i < 1000; i++) recent.set(`k${i}`, i, 10)
  const kept = Array.from({ length: 1000 }, (_, i) => i).filter(i => recent.get(`k${i}`))
  t.ok(kept.length >= 10 && kept.length <= 20 && kept.includes(999), `${kept.length} kept`)
  recent.set('k999', -1, 10)
  t.equal(recent.get('k999')?.value, -1)
  recent.set('k999', 5, 101)
  t.equal(recent.get('k999'), undefined, 'too large to be kept, and the old value is gone')
  recent.set('used', 1, 10)
  for (let i = 0; i < 100; i++) {
    recent.set(`n${i}`, i, 10)
    if (!recent.get('used')) t.fail('what is used is kept')
  }
})
