import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pino } from 'pino'
import t from 'tap'
import { openSqlite, SERVED_STORE } from '../../../../src/service/api/store/sqlite.js'
import { loadSqlite, SqliteConnection } from '../../../../src/service/api/store/sqlite-connection.js'
import { openState, restoreState } from '../../../../src/service/api/store/state.js'
import type { Store } from '../../../../src/service/api/store/store.js'
import { limitFileSize } from '../../../support/file-limit.js'
import { testFolder } from '../../../support/folder.js'
import { longTest } from '../../../support/long-test.js'
import { needs } from '../../../support/needs.js'
import { put, settingOf } from '../../../support/settings.js'

// Node.js ignores it, but not where the test runner listens to it.
process.on('SIGXFSZ', () => {})

const LOG = 'store.sqlite-wal'
const log = pino({ enabled: false })
const random = (bytes: number) => Buffer.alloc(bytes, 1)

/** What a process that is killed now leaves, or a machine whose power fails when `bytes` of the log are on the disk. */
async function afterKill<T>(path: string, look: (store: Store) => Promise<T>, bytes?: number): Promise<T> {
  const left = mkdtempSync(`${path}-left-`)
  for (const name of ['store.sqlite', LOG]) cpSync(join(path, name), join(left, name))
  if (bytes !== undefined) truncateSync(join(left, LOG), bytes)
  const store = await openSqlite(left)
  try {
    return await look(store)
  } finally {
    await store.close()
  }
}

/** Both rows of a pair, or none. */
const putPair = (store: Store, n: number, value = 'x') =>
  store.change('', async sql => {
    for (const side of ['a', 'b']) await put(sql, `${side}/${n}`, value)
  })

async function pairsIn(store: Store): Promise<{ a: number[]; b: number[] }> {
  const rows = await store.all<{ name: string }>("SELECT name FROM setting WHERE name LIKE '_/%'")
  const of = (side: string) => rows.flatMap(({ name }) => (name.startsWith(side) ? Number(name.slice(2)) : []))
  return { a: of('a').sort((a, b) => a - b), b: of('b').sort((a, b) => a - b) }
}

// Buffered: the limit applies to standard output too when that is a file, and a failed write there ends the process.
t.test('the store of a service is checked in another thread: systemd hears that it starts', async t => {
  const path = testFolder(t)
  await (await openSqlite(path)).close()
  const { execute } = SqliteConnection.prototype
  const here: string[] = []
  SqliteConnection.prototype.execute = function (how, text, values) {
    here.push(text)
    return execute.call(this, how, text, values)
  }
  t.teardown(() => {
    SqliteConnection.prototype.execute = execute
  })
  await (await openSqlite(path)).close()
  t.match(here, ['PRAGMA user_version', 'PRAGMA quick_check(1)'])
  here.length = 0
  await (await openSqlite(path, log, undefined, SERVED_STORE)).close()
  t.same(here, [])
})

t.test('a write that fails at any byte: what is acknowledged survives a kill', { buffered: true }, async t => {
  const prlimit = needs(t, 'prlimit')
  if (!prlimit) return
  const path = join(testFolder(t), 'store')
  const logged: { code?: string; msg: string }[] = []
  const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
  const store = await openSqlite(path, log, undefined, SERVED_STORE)
  t.teardown(() => limitFileSize(prlimit, undefined))
  t.teardown(() => store.close())
  const expected = new Map<string, string>()
  const save = async (name: string, value: number) => {
    await put(store, name, String(value))
    expected.set(name, String(value))
  }
  // A frame of the log has a head of 24 bytes, and a page of 4096.
  const cuts = [0, 1, 23, 24, 25, 1000, 4119, 4120, 4121, 8240, 20_000]
  for (const [round, cut] of cuts.entries()) {
    await save('same', 2 * round)
    await save(`before/${round}`, round)
    limitFileSize(prlimit, statSync(join(path, LOG)).size + cut)
    try {
      for (let tries = 0; tries < 3; tries++) {
        const doomed = store.change('', async sql => {
          await put(sql, `failed/${round}`, 'x'.repeat(100_000))
          await put(sql, 'same', 'never')
        })
        await t.rejects(doomed, {
          code: 'SLUICE_STORE_UNUSABLE',
          message: /cannot save changes: .*continues by itself/s,
        })
      }
      t.match(store.health(), { writable: false, failedWrites: 3 * (round + 1) })
      t.equal(await settingOf(store, 'same'), String(2 * round), 'it can be read meanwhile')
    } finally {
      limitFileSize(prlimit, undefined)
    }
    await save('same', 2 * round + 1)
    await save(`after/${round}`, round)
    t.match(store.health(), { writable: true })
    const rows = await afterKill(path, left => left.all<{ name: string; value: string }>('SELECT * FROM setting'))
    t.same(new Map(rows.map(({ name, value }) => [name, value])), expected, `cut after ${cut} bytes`)
  }
  t.equal(logged.filter(({ code }) => code === 'SLUICE_STORE_WRITE_FAILED').length, cuts.length, 'once, and not each')
  t.equal(logged.filter(({ msg }) => /changes can be saved/.test(msg)).length, cuts.length)
})

t.test('power fails at any byte of the log: every synced change is there, and no half of one', async t => {
  const path = join(testFolder(t), 'store')
  const store = await openSqlite(path)
  t.teardown(() => store.close())
  t.match(await store.change('', sql => sql.get('PRAGMA synchronous')), { synchronous: 2 }, 'each commit is synced')
  const synced: number[] = []
  for (let n = 0; n < 12; n++) {
    await putPair(store, n, 'x'.repeat(n % 3 === 0 ? 6000 : 10))
    synced.push(statSync(join(path, LOG)).size)
  }
  const cuts = synced.flatMap((size, i) => {
    const before = synced[i - 1] ?? 0
    return [size, size - 1, size - 30, Math.floor((size + before) / 2), before + 1].filter(cut => cut > before)
  })
  for (const cut of cuts) {
    const { a, b } = await afterKill(path, pairsIn, cut)
    const safe = synced.filter(size => size <= cut).length
    t.same([a, b], Array(2).fill(Array.from({ length: safe }, (_, n) => n)), `${cut} bytes`)
  }
})

const modules = [
  ['openSqlite, SERVED_STORE', '../../../../src/service/api/store/sqlite.js'],
  ['loadSqlite', '../../../../src/service/api/store/sqlite-connection.js'],
  ['put', '../../../support/settings.js'],
].map(([name, path]) => `import { ${name} } from ${JSON.stringify(new URL(path!, import.meta.url).href)}`)

/** Saves two pairs in one commit, and is killed after so many calls of the database. */
const stepper = `${modules.join('\n')}
const [path, most] = process.argv.slice(1)
let left = Number.POSITIVE_INFINITY
const step = () => left-- <= 0 && process.kill(process.pid, 'SIGKILL')
const Sqlite = await loadSqlite()
function Stepping(...where) {
  const database = new Sqlite(...where)
  const prepare = text => {
    const statement = database.prepare(text)
    return { all: of => statement.all(of), get: of => statement.get(of), run: of => (step(), statement.run(of)) }
  }
  return { prepare, exec: text => (step(), database.exec(text), step()), close: () => database.close() }
}
const store = await openSqlite(path, undefined, async () => Stepping)
left = Number(most)
const pair = n => store.change('', async sql => {
  for (const side of ['a', 'b']) await put(sql, side + '/' + n, 'x')
})
await Promise.all([pair(1), pair(2)])
console.log('saved')
step()`

longTest('killed at each step of a change', async t => {
  const path = join(testFolder(t), 'store')
  await (await openSqlite(path)).close()
  const states = new Set<string>()
  for (let steps = 0, ended = false; !ended && steps < 30; steps++) {
    const copy = `${path}-${steps}`
    cpSync(path, copy, { recursive: true })
    const child = spawn(process.execPath, ['--input-type=module', '-e', stepper, copy, String(steps)])
    let said = ''
    child.stdout.on('data', data => (said += data))
    const [code] = await once(child, 'close')
    ended = code === 0
    t.ok(ended || code === null, 'it ends, or is killed')
    const store = await openSqlite(copy)
    const { a, b } = await pairsIn(store)
    t.same(a, b, `after ${steps} steps`)
    t.ok(said === '' || a.length === 2, 'what was acknowledged is there')
    states.add(`${said.trim()} ${a.join()}`)
    await store.close()
  }
  t.same([...states], [' ', ' 1,2', 'saved 1,2'])
})

/** Writes pairs until it is killed, four at a time, and says which are acknowledged. */
const writer = `${modules.join('\n')}
const [path, from] = process.argv.slice(1)
const store = await openSqlite(path, undefined, undefined, SERVED_STORE)
let n = Number(from)
async function lane() {
  for (;;) {
    const i = n++
    await store.change('', async sql => {
      for (const side of ['a', 'b']) await put(sql, side + '/' + i, 'x'.repeat(3000))
    })
    await new Promise(resolve => process.stdout.write(i + '\\n', resolve))
  }
}
await Promise.all([lane(), lane(), lane(), lane()])`

t.test('killed at any moment, it opens again with every acknowledged change, and no half of one', async t => {
  const path = join(testFolder(t), 'store')
  const acknowledged: number[] = []
  let from = 0
  for (const most of [1, 7, 60, 400]) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', writer, path, String(from)])
    let said = 0
    for await (const line of createInterface({ input: child.stdout })) {
      acknowledged.push(Number(line))
      if (++said === most) child.kill('SIGKILL')
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    t.ok(said >= most, `${said} changes before the kill`)
    const store = await openSqlite(path)
    const { a, b } = await pairsIn(store)
    t.same(a, b)
    const there = new Set(a)
    t.same(
      acknowledged.filter(n => !there.has(n)),
      [],
    )
    from = Math.max(...a) + 1
    await store.close()
  }
})

t.test('a store whose structure is damaged does not open, and a backup takes its place', async t => {
  const folder = testFolder(t)
  const dataDir = join(folder, 'data')
  const state = await openState(dataDir, random, { log })
  for (let n = 0; n < 50; n++) await put(state.store, `k/${n}`, 'x'.repeat(1000))
  await state.backup(join(folder, 'backup'))
  await state.close()
  const file = join(dataDir, 'store', 'store.sqlite')
  const whole = readFileSync(file)
  const damages: Record<string, Buffer> = {
    'heads of pages': Buffer.from(whole.map((byte, i) => (i >= 4096 && i % 4096 < 8 ? byte ^ 1 : byte))),
    'its head': Buffer.from(whole.map((byte, i) => (i < 20 ? 0 : byte))),
    'its end': whole.subarray(0, whole.length - 8192),
  }
  for (const [what, bytes] of Object.entries(damages)) {
    writeFileSync(file, bytes)
    for (let i = 0; i < 2; i++)
      await t.rejects(
        openState(dataDir, random, { log }),
        {
          code: 'SLUICE_STORE_DAMAGED',
          message: /store .*store\.sqlite is damaged: .*admin restore --replace/s,
        },
        what,
      )
  }
  await restoreState(join(folder, 'backup'), dataDir, { replace: true })
  const restored = await openState(dataDir, random, { log })
  t.equal(await settingOf(restored.store, 'k/49'), 'x'.repeat(1000))
  await restored.close()
})

t.test('a store that was removed or replaced while it is open acknowledges nothing', async t => {
  const path = join(testFolder(t), 'store')
  const logged: { code?: string; msg: string }[] = []
  const store = await openSqlite(path, pino({}, { write: line => logged.push(JSON.parse(line)) }))
  t.teardown(() => store.close())
  await put(store, 'a', 'a')
  renameSync(path, `${path}.away`)
  const refused = { code: 'SLUICE_STORE_UNUSABLE', message: /was removed or replaced while the service was using it/ }
  await t.rejects(put(store, 'b', 'b'), refused)
  t.notOk(store.health().writable)
  mkdirSync(path)
  writeFileSync(join(path, 'store.sqlite'), '')
  await t.rejects(put(store, 'c', 'c'), refused)
  t.equal(await settingOf(store, 'a'), 'a', 'it can still be read')
  renameSync(path, `${path}.other`)
  renameSync(`${path}.away`, path)
  await put(store, 'd', 'd')
  t.same(
    await afterKill(path, left => Promise.all(['a', 'b', 'c', 'd'].map(name => settingOf(left, name)))),
    ['a', undefined, undefined, 'd'],
    'when it is put back it is written to again',
  )
  t.same(
    logged.map(({ code, msg }) => code ?? msg),
    ['SLUICE_STORE_REPLACED', 'changes can be saved in the store again'],
  )
})

t.test('a disk that is full in the middle of a change fails all that share its commit', async t => {
  const Sqlite = await loadSqlite()
  let isFull = false
  class Full extends Sqlite {
    override prepare(text: string) {
      if (isFull) throw Object.assign(new Error('database or disk is full'), { errcode: 13 })
      return super.prepare(text)
    }
  }
  const store = await openSqlite(join(testFolder(t), 'store'), undefined, async () => Full)
  t.teardown(() => store.close())
  await put(store, 'a', 'a')
  isFull = true
  const refused = {
    code: 'SLUICE_STORE_UNUSABLE',
    message: /cannot save changes: database or disk is full\. Make room/,
  }
  const changes = [put(store, 'a', 'b'), store.run('DELETE FROM enterprise'), put(store, 'a', 'c')]
  await Promise.all(changes.map(change => t.rejects(change, refused)))
  t.match(store.health(), { writable: false, failedWrites: 1 })
  isFull = false
  t.equal(await settingOf(store, 'a'), 'a')
  await put(store, 'a', 'd')
  t.equal(await settingOf(store, 'a'), 'd')
})

t.test('a store that is removed during a change does not acknowledge it', async t => {
  const path = join(testFolder(t), 'store')
  const Sqlite = await loadSqlite()
  let isLate = false
  class Removed extends Sqlite {
    override exec(text: string): void {
      if (text === 'COMMIT' && isLate) renameSync(path, `${path}.away`)
      super.exec(text)
    }
  }
  const store = await openSqlite(path, undefined, async () => Removed)
  t.teardown(() => store.close())
  const removed = { code: 'SLUICE_STORE_UNUSABLE', message: /was removed or replaced/ }
  const change = store.change('', async sql => {
    await put(sql, 'a', 'a')
    renameSync(path, `${path}.away`)
  })
  await t.rejects(change, removed)
  renameSync(`${path}.away`, path)
  isLate = true
  await t.rejects(put(store, 'b', 'b'), removed, 'also in its last moment')
})

t.test('a file that cannot be looked at is no reason to save nothing', async t => {
  const path = join(testFolder(t), 'store')
  const store = await openSqlite(path)
  t.teardown(() => store.close())
  unlinkSync(join(path, 'store.sqlite'))
  symlinkSync('store.sqlite', join(path, 'store.sqlite'))
  await put(store, 'a', 'a')
  t.equal(await settingOf(store, 'a'), 'a')
})
