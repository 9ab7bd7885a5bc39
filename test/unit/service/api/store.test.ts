import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
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
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { ClassicLevel } from 'classic-level'
import t, { type Test } from 'tap'
import { openLevelStore } from '../../../../src/service/api/store/level.js'
import { Reads } from '../../../../src/service/api/store/reads.js'
import { Recent } from '../../../../src/service/api/store/recent.js'
import { openState, restoreState } from '../../../../src/service/api/store/state.js'
import type { Store } from '../../../../src/service/api/store/store.js'
import { testFolder } from '../../../support/folder.js'
import { valuesOf } from '../../../support/values-of.js'

/** What every store must do. A second implementation is one more line. */
const STORES: Record<string, (path: string) => Promise<Store>> = { level: openLevelStore }

const module = join(dirname(fileURLToPath(import.meta.url)), '../../../../src/service/api/store/level.js')

async function opened(t: Test, open = openLevelStore): Promise<{ store: Store; path: string }> {
  const path = join(testFolder(t), 'deep', 'store')
  const store = await open(path)
  t.teardown(() => store.close())
  return { store, path }
}

const put = (key: string, value: unknown = key) => ({ key, value })
const absent = (key: string) => ({ key, value: undefined })
const keys = (entries: readonly { key: string }[]) => entries.map(({ key }) => key)

for (const [name, open] of Object.entries(STORES)) {
  t.test(`${name}: reads what was written, once it was`, async t => {
    const { store } = await opened(t, open)
    t.equal(await store.get('a'), undefined)
    const values = {
      text: 'ä\u2028\0',
      number: -0.5,
      list: [1, null, { deep: true }],
      none: null,
      empty: {},
      string: '',
    }
    await store.write(Object.entries(values).map(([key, value]) => put(`v/${key}`, value)))
    for (const [key, value] of Object.entries(values)) t.same(await store.get(`v/${key}`), value)
    await store.write([put('v/text', 'new'), absent('v/none'), absent('v/never')])
    t.equal(await store.get('v/text'), 'new', 'also when it was read before')
    t.equal(await store.get('v/none'), undefined)
    t.equal((await store.list('v/')).length, 5)
    await store.write([put('v/text', 1), put('v/text', 2)])
    t.equal(await store.get('v/text'), 2, 'the last change of a key counts')
    await store.write([])
    const object = (await store.get('v/list')) as unknown[]
    t.throws(() => object.push(1), TypeError, 'what comes out is shared, and so frozen')
    t.throws(() => ((object[2] as { deep: boolean }).deep = false), TypeError)
  })

  t.test(`${name}: tells of writes before they resolve`, async t => {
    const { store } = await opened(t, open)
    const heard: string[] = []
    for (const prefix of ['a/', 'a/b/', 'c/']) store.watch(prefix, () => heard.push(prefix))
    const hears = async (...written: Parameters<Store['write']>) => {
      await store.write(...written).catch(() => {})
      return heard.splice(0)
    }
    t.same(await hears([put('a/1'), put('a/2'), put('d/1')]), ['a/'], 'once for all of it')
    t.same(await hears([put('a/b/1')]), ['a/', 'a/b/'])
    t.same(await hears([absent('c/1')]), ['c/'])
    t.same(await hears([put('d/1'), put('a')]), [])
    t.same(await hears([put('c/1')], [put('d/1', 'other')]), [], 'not of what was not done')
  })

  t.test(`${name}: lists in order, in parts, from either end`, async t => {
    const { store } = await opened(t, open)
    const all = ['p/1', 'p/10', 'p/2', 'p/2/x', 'p/~', 'p/ä']
    await store.write([...all, 'p', 'o/z', 'p.', 'p0', 'q/1'].map(key => put(key)))
    const table: [Parameters<Store['list']>[1], string[]][] = [
      [undefined, all],
      [{ limit: 2 }, ['p/1', 'p/10']],
      [{ after: 'p/10' }, ['p/2', 'p/2/x', 'p/~', 'p/ä']],
      [{ after: 'p/11', limit: 1 }, ['p/2']],
      [{ after: 'a' }, all],
      [{ after: 'z' }, []],
      [{ after: 'p/ä' }, []],
      [{ reverse: true }, all.toReversed()],
      [{ reverse: true, limit: 2 }, ['p/ä', 'p/~']],
      [{ reverse: true, after: 'p/2' }, ['p/10', 'p/1']],
      [{ reverse: true, after: 'z' }, all.toReversed()],
      [{ reverse: true, after: 'p/1' }, []],
    ]
    for (let round = 0; round < 2; round++) {
      for (const [options, expected] of table) {
        t.same(keys(await store.list('p/', options)), expected, JSON.stringify(options))
      }
    }
    t.same(await store.list('p/2/'), [put('p/2/x')])
    t.same(await store.list('none/'), [])
    await store.write([put('p/3'), absent('p/1'), put('p/2', 'other')])
    t.same(keys(await store.list('p/', { limit: 2 })), ['p/10', 'p/2'], 'a list is never older than the last write')
    t.equal((await store.list('p/', { limit: 2 }))[1]?.value, 'other')
    await store.write([put('p/2/y')])
    t.equal((await store.list('p/2/')).length, 2)
    t.equal((await store.list('p/')).length, 7, 'also that of the folder above')
  })

  t.test(`${name}: a write is all or nothing, on condition`, async t => {
    const { store } = await opened(t, open)
    const write = (...args: Parameters<Store['write']>) =>
      store.write(...args).then(
        () => 'written',
        error => error.code,
      )
    const conflict = 'SLUICE_STORE_CONFLICT'
    t.equal(await write([put('a', { n: 1 })], [absent('a')]), 'written')
    t.equal(await write([put('a', 2), put('b', 2)], [absent('a')]), conflict)
    t.equal(await store.get('b'), undefined)
    t.equal(await write([put('b', 2)], [put('a', { n: 1 }), put('b', 1)]), conflict)
    t.equal(await write([put('b', 2)], [put('a', { n: 1 }), absent('b')]), 'written')

    await store.write([put('n', 0)])
    const both = await Promise.all([write([put('n', 1)], [put('n', 0)]), write([put('n', 2)], [put('n', 0)])])
    t.same(both, ['written', conflict], 'one of two at once')
    t.equal(await store.get('n'), 1)
    const chain = await Promise.all([1, 2, 3, 4].map(n => write([put('n', n + 1)], [put('n', n)])))
    t.same(chain, Array(4).fill('written'), 'each sees the one before it')
    t.equal(await store.get('n'), 5)
    let lost = 0
    const add = async () => {
      for (;;) {
        const n = (await store.get('n')) as number
        if ((await write([put('n', n + 1)], [put('n', n)])) === 'written') return
        lost++
      }
    }
    await Promise.all(Array.from({ length: 20 }, add))
    t.equal(await store.get('n'), 25, 'no addition is lost')
    t.ok(lost > 0)
  })

  t.test(`${name}: reads while it is written never show a mix that lasts`, async t => {
    const { store } = await opened(t, open)
    let stop = false
    const reader = (async () => {
      while (!stop) {
        await store.list('m/')
        await store.get('m/a')
        await new Promise(setImmediate)
      }
    })()
    for (let i = 0; i < 50; i++) {
      await store.write([put('m/a', i), put('m/b', i)])
      t.equal(await store.get('m/a'), i)
      t.same(valuesOf(await store.list('m/'), 'value'), [i, i])
    }
    stop = true
    await reader
  })

  t.test(`${name}: it is there again when it is opened again`, async t => {
    const { store, path } = await opened(t, open)
    await store.write([put('a', 1)])
    const late = store.write([put('b', 2)])
    await store.close()
    await late
    await t.rejects(store.get('c'), { code: 'SLUICE_STORE_UNUSABLE' })
    await t.rejects(store.write([put('c')]), { code: 'SLUICE_STORE_UNUSABLE' })
    const again = await open(path)
    t.same([await again.get('a'), await again.get('b'), await again.get('c')], [1, 2, undefined])
    await again.close()
  })

  t.test(`${name}: a backup is one moment of it`, async t => {
    const { store, path } = await opened(t, open)
    const text = 'x'.repeat(500)
    await store.write(Array.from({ length: 3000 }, (_, i) => put(`k/${i}`, { i, text })))
    await store.write([put('pair/a', 0), put('pair/b', 0)])
    const target = join(dirname(path), 'copy')
    const backup = store.backup(target)
    for (let i = 1; i < 30; i++) await store.write([put('pair/a', i), put('pair/b', i), put(`later/${i}`)])
    await backup
    await t.rejects(store.backup(target), { code: 'SLUICE_STORE_UNUSABLE', message: /exists already/ })
    await t.rejects(store.backup(join(path, 'LOG', 'x')), { code: 'SLUICE_STORE_UNUSABLE' })
    t.equal(statSync(target).mode & 0o777, 0o700)
    const copy = await open(target)
    t.equal(await copy.get('pair/a'), await copy.get('pair/b'))
    t.equal((await copy.list('k/')).length, 3000)
    await copy.close()
    t.same(readdirSync(dirname(path)).sort(), ['copy', 'store'])
  })

  t.test(`${name}: one process at a time`, async t => {
    const { path } = await opened(t, open)
    await t.rejects(open(path), {
      code: 'SLUICE_STORE_IN_USE',
      message: /in use by another sluice serve; stop that process, or configure another data_dir/,
    })
    const file = join(testFolder(t, { file: '' }), 'file')
    await t.rejects(open(file), { code: 'SLUICE_STORE_UNUSABLE', message: new RegExp(file) })
  })
}

/** Writes pairs until it is killed, four at a time, and says which are acknowledged. */
const writer = `import { openLevelStore } from ${JSON.stringify(module)}
const [path, from] = process.argv.slice(1)
const store = await openLevelStore(path)
let n = Number(from)
const value = 'x'.repeat(3000)
async function lane() {
  for (;;) {
    const i = n++
    await store.write([{ key: 'a/' + i, value: [i, value] }, { key: 'b/' + i, value: [i, value] }, { key: 'last', value: i }])
    await new Promise(resolve => process.stdout.write(i + '\\n', resolve))
  }
}
await Promise.all([lane(), lane(), lane(), lane()])`

t.test('killed at any moment, it opens again with every acknowledged write, and no half of one', async t => {
  const path = join(testFolder(t), 'store')
  const acknowledged: number[] = []
  let from = 0
  for (const most of [1, 7, 60, 400]) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', writer, path, String(from)])
    let said = 0
    for await (const line of createInterface({ input: child.stdout })) {
      acknowledged.push(Number(line))
      if (++said === 1) await t.rejects(openLevelStore(path), { code: 'SLUICE_STORE_IN_USE' }, 'another process has it')
      if (said === most) child.kill('SIGKILL')
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    t.ok(said >= most, `${said} writes before the kill`)
    const store = await openLevelStore(path)
    const missing = []
    for (const i of acknowledged) if (((await store.get(`a/${i}`)) as number[] | undefined)?.[0] !== i) missing.push(i)
    t.same(missing, [])
    const [a, b] = [await store.list('a/'), await store.list('b/')]
    t.same(
      keys(a),
      keys(b).map(key => key.replace('b', 'a')),
    )
    from = Math.max(...a.map(({ key }) => Number(key.slice(2)))) + 1
    await store.close()
  }
})

t.test('a torn end of the log is what was not acknowledged', async t => {
  const path = join(testFolder(t), 'store')
  const store = await openLevelStore(path)
  await store.write([put('a', 1)])
  await store.write([put('b', 1)])
  await store.close()
  const log = join(path, readdirSync(path).find(name => name.endsWith('.log'))!)
  appendFileSync(log, readFileSync(log).subarray(0, 20))
  const again = await openLevelStore(path)
  t.same([await again.get('a'), await again.get('b')], [1, 1])
  await again.close()
})

const random = (fill: number) => (bytes: number) => Buffer.alloc(bytes, fill)

t.test('the data_dir: a store and its secret, which belong together', async t => {
  const dir = join(testFolder(t), 'state')
  const state = await openState(dir, random(1))
  t.equal(state.secret.toString('hex'), '01'.repeat(32))
  t.equal(statSync(join(dir, 'secret')).mode & 0o777, 0o600)
  t.equal(statSync(join(dir, 'store')).mode & 0o777, 0o700)
  await t.rejects(openState(dir, random(2)), { code: 'SLUICE_STORE_IN_USE' })
  await state.store.write([put('a', 1)])
  await state.close()
  const again = await openState(dir, random(2))
  t.same(again.secret, state.secret, 'it stays')
  await again.close()

  const secret = readFileSync(join(dir, 'secret'))
  const unusable = (message: RegExp) => t.rejects(openState(dir, random(3)), { code: 'SLUICE_STORE_UNUSABLE', message })
  writeFileSync(join(dir, 'secret'), '03'.repeat(32))
  await unusable(/not the secret that this store was made with/)
  writeFileSync(join(dir, 'secret'), 'short')
  await unusable(/does not hold a secret/)
  rmSync(join(dir, 'secret'))
  await unusable(/secret is missing: without it no key is known; restore it/)
  t.notOk(existsSync(join(dir, 'secret')))
  writeFileSync(join(dir, 'secret'), secret)
  chmodSync(join(dir, 'secret'), 0o640)
  await unusable(/others can read .*secret; chmod 600 it/)
  rmSync(join(dir, 'secret'))
  spawnSync('mkfifo', ['-m', '600', join(dir, 'secret')])
  await unusable(/secret is not a file/)
  rmSync(join(dir, 'secret'))
  writeFileSync(join(dir, 'secret'), secret, { mode: 0o600 })
  await (await openState(dir, random(3))).close()
})

t.test('backup and restore', async t => {
  const dir = testFolder(t, { broken: {} })
  const state = await openState(join(dir, 'one'), random(1))
  await state.store.write([put('a', 1)])
  await state.backup(join(dir, 'backup'))
  await t.rejects(state.backup(join(dir, 'backup')), { code: 'SLUICE_STORE_UNUSABLE', message: /does not exist yet/ })
  await t.rejects(state.backup(join(dir, 'no', 'such')), { message: /ENOENT/ })
  symlinkSync(join(dir, 'one/store'), join(dir, 'link'))
  for (const inside of ['one/backup', 'one/store/backup', 'link/backup'])
    await t.rejects(state.backup(join(dir, inside)), { message: /is in data_dir; name a folder outside of it/ }, inside)
  await state.store.write([put('a', 2)])
  const refused = (from: string, to: string, message: RegExp, replace = false) =>
    t.rejects(restoreState(join(dir, from), join(dir, to), { replace }), { message })
  await refused('backup', 'one', /exists; restore into an empty data_dir/)
  await refused('backup', 'one', /in use by another/, true)
  await state.close()
  const modes = (name: string) => {
    const paths = readdirSync(join(dir, name), { recursive: true }).map(path => statSync(join(dir, name, String(path))))
    return [...new Set(paths.map(found => `${found.isFile() ? 'file' : 'folder'} ${(found.mode & 0o777).toString(8)}`))]
  }
  t.same(modes('backup').sort(), ['file 600', 'folder 700'])

  const valueIn = async (name: string) => {
    const restored = await openState(join(dir, name), random(9))
    const value = await restored.store.get('a')
    t.same(restored.secret, state.secret)
    await restored.close()
    return value
  }
  for (const name of ['two', 'three']) {
    await restoreState(join(dir, 'backup'), join(dir, name))
    t.same(modes(name).sort(), ['file 600', 'folder 700'])
    t.equal(await valueIn(name), 1, 'a backup can be restored more than once')
  }
  t.equal(await valueIn('one'), 2)
  await restoreState(join(dir, 'backup'), join(dir, 'one'), { replace: true })
  t.equal(await valueIn('one'), 1)
  t.equal(await valueIn('one/replaced-1'), 2, 'what was there is kept')

  for (const target of ['/etc/passwd', join(dir, 'elsewhere'), '/nowhere']) {
    symlinkSync(target, join(dir, 'backup', 'store', 'link'))
    await refused('backup', 'four', /store\/link is neither a file nor a folder/)
    t.notOk(existsSync(join(dir, 'four', 'store')))
    rmSync(join(dir, 'backup', 'store', 'link'))
  }
  await refused('broken', 'four', /not a complete backup: it has no secret/)
  mkdirSync(join(dir, 'broken', 'store'))
  writeFileSync(join(dir, 'broken', 'secret'), '05'.repeat(32), { mode: 0o600 })
  await refused('broken', 'four', /its store is empty, or the list of its files is damaged/)
  await refused('broken', 'one', /its store is empty/, true)
  writeFileSync(join(dir, 'backup', 'secret'), '05'.repeat(32), { mode: 0o600 })
  await refused('backup', 'one', /do not belong together/, true)
  writeFileSync(join(dir, 'backup', 'secret'), state.secret.toString('hex'), { mode: 0o600 })
  const table = readdirSync(join(dir, 'backup/store')).find(
    name => statSync(join(dir, 'backup/store', name)).size > 100 && /\.(ldb|log)$/.test(name),
  )!
  const bytes = readFileSync(join(dir, 'backup/store', table))
  const damaged = bytes.map((byte, i) => (i > 20 && i < 60 ? byte ^ 1 : byte))
  writeFileSync(join(dir, 'backup/store', table), damaged)
  await refused('backup', 'one', /backup is not restored, since its store is damaged: /, true)
  writeFileSync(join(dir, 'backup/store', table), bytes)
  t.equal(await valueIn('one'), 1, 'a backup that is not right changes nothing')
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

t.test('a read that began before a write is not remembered after it', async t => {
  const reads = new Reads(10_000)
  const { generation } = reads
  reads.keep('a/b', 1, 1, generation)
  reads.keepList('a/', {}, [], 1, generation)
  t.same([reads.value('a/b')?.value, reads.list('a/', {})], [1, []])
  reads.forget(['a/b'])
  reads.keep('a/b', 1, 1, generation)
  reads.keepList('a/', {}, [], 1, generation)
  t.same([reads.value('a/b'), reads.list('a/', {})], [undefined, undefined])
})

t.test('every write is synced, and those of one moment together', async t => {
  const { store } = await opened(t)
  const batches = t.capture(ClassicLevel.prototype, 'batch', ClassicLevel.prototype.batch as () => unknown)
  await Promise.all([1, 2, 3].map(n => store.write([put(`k/${n}`)])))
  await store.write([put('k/4')])
  t.match(
    batches().map(({ args }) => args),
    [
      [Array(3).fill({ type: 'put' }), { sync: true }],
      [[{ key: 'k/4' }], { sync: true }],
    ],
  )
})
