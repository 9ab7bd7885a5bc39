import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openLevelStore } from '../../../../src/service/api/store/level.js'
import { readLog, writeLog } from '../../../../src/service/api/store/level-log.js'
import { openState, restoreState } from '../../../../src/service/api/store/state.js'
import type { Store } from '../../../../src/service/api/store/store.js'
import { limitFileSize } from '../../../support/file-limit.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { valuesOf } from '../../../support/values-of.js'

// Node.js ignores it, but not where the test runner listens to it.
process.on('SIGXFSZ', () => {})

const put = (key: string, value: unknown = key) => ({ key, value })

/** A copy of all files as they are at one moment: LevelDB removes files in the background, and a copy takes a while. */
function copyAtOnce(path: string): string {
  for (let attempt = 0; ; attempt++) {
    const copy = mkdtempSync(`${path}-left-`)
    const before = readdirSync(path).join()
    try {
      cpSync(path, copy, { recursive: true })
      if (readdirSync(path).join() === before) return copy
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt > 100) throw error
    }
  }
}

/** What a process that is killed now leaves, opened again. */
async function afterKill<T>(path: string, look: (store: Store) => Promise<T>): Promise<T> {
  const left = copyAtOnce(path)
  const store = await openLevelStore(left)
  try {
    return await look(store)
  } finally {
    await store.close()
  }
}

const logsIn = (path: string) => readdirSync(path).filter(name => name.endsWith('.log'))
const newestLog = (path: string) => join(path, logsIn(path).sort().at(-1)!)

// Buffered: the limit applies to standard output too when that is a file, and a failed write there ends the process.
t.test('a write that fails at any byte: what is acknowledged survives a kill', { buffered: true }, async t => {
  const prlimit = needs(t, 'prlimit')
  if (!prlimit) return
  const path = join(testFolder(t), 'store')
  const logged: { code?: string; msg: string }[] = []
  const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
  const store = await openLevelStore(path, log)
  t.teardown(() => limitFileSize(prlimit, undefined))
  t.teardown(() => store.close())
  const expected = new Map<string, number>()
  const write = async (key: string, value: number) => {
    await store.write([put(key, value)])
    expected.set(key, value)
  }
  // A log record is 7 + 12 + 2 bytes, the key and the value. A large one has several fragments.
  const cuts = [0, 1, 6, 7, 8, 11, 18, 19, 20, 25, 30, 32_768 - 300, 32_768, 40_000, 70_000]
  let heard = 0
  store.watch('k/', () => heard++)
  for (const [round, cut] of cuts.entries()) {
    await write('k/same', 2 * round)
    await write(`k/before/${round}`, round)
    limitFileSize(prlimit, statSync(newestLog(path)).size + cut)
    try {
      for (let tries = 0; tries < 3; tries++) {
        const doomed = [put(`k/failed/${round}`, 'x'.repeat(cut > 100 ? 100_000 : 40)), put('k/same', -1)]
        await t.rejects(store.write(doomed), {
          code: 'SLUICE_STORE_UNUSABLE',
          message: /cannot save changes: .*(large|EFBIG).*continues by itself/s,
        })
      }
      t.match(store.health(), { writable: false })
      t.equal(await store.get('k/same'), 2 * round, 'it can be read meanwhile')
      t.equal(await store.get(`k/before/${round}`), round)
    } finally {
      limitFileSize(prlimit, undefined)
    }
    heard = 0
    await write('k/same', 2 * round + 1)
    t.ok(heard > 1, 'whoever remembers something hears that it was opened again')
    await write(`k/after/${round}`, round)
    t.match(store.health(), { writable: true, reopens: round + 1 })
    const found = await afterKill(path, async left => {
      const entries = await left.list('k/')
      return entries.filter(({ key }) => !key.startsWith('k/failed/'))
    })
    const byKey = ([a]: [string, number], [b]: [string, number]) => (a < b ? -1 : 1)
    t.same(
      found.map(({ key, value }) => [key, value]),
      [...expected].sort(byKey),
      `cut after ${cut} bytes`,
    )
  }
  t.notOk(existsSync(join(path, 'room.probe')))
  t.ok(logged.some(({ code }) => code === 'SLUICE_STORE_WRITE_FAILED'))
  t.equal(logged.filter(({ msg }) => /opened the store again/.test(msg)).length, cuts.length)
})

t.test('a write that fails for a moment is saved by another try, whether it reached the disk or not', async t => {
  const folder = testFolder(t)
  for (const reaches of [true, false]) {
    const path = join(folder, `store-${reaches}`)
    const store = await openLevelStore(path)
    const batch = ClassicLevel.prototype.batch as (...args: unknown[]) => Promise<void>
    let fail = true
    const stub = t.intercept(ClassicLevel.prototype, 'batch', {
      configurable: true,
      value: async function (this: ClassicLevel, ...args: unknown[]) {
        if (!fail || reaches) await batch.apply(this, args)
        if (fail) {
          fail = false
          throw new Error('IO error: Input/output error')
        }
      },
    })
    await Promise.all([store.write([put('a', 1)]), store.get('a'), store.list('a/')])
    await store.write([put('b', 1)], [put('a', 1)])
    stub.restore()
    t.match(store.health(), { writable: true, failedWrites: 1, reopens: 1 })
    t.same(await afterKill(path, left => Promise.all([left.get('a'), left.get('b')])), [1, 1])
    await store.close()
  }
})

/** A store as a writer leaves it that continues after incomplete records: they stay in the middle of its log. */
async function tornStore(t: Test, folder: string, change: (records: Buffer[]) => Buffer): Promise<string> {
  const path = join(folder, 'store')
  const store = await openLevelStore(path)
  for (let i = 0; i < 30; i++) await store.write([put(`k/${i}`, [i, 'x'.repeat(i % 7 === 0 ? 40_000 : 200)])])
  await store.close()
  const log = newestLog(path)
  const { records, damages } = readLog(readFileSync(log))
  t.equal(records.length, 30)
  t.same(damages, [])
  t.same(writeLog(records), readFileSync(log), 'records are written as LevelDB writes them')
  writeFileSync(log, change([...records]))
  return path
}

t.test('incomplete writes between complete ones are removed, and every complete one is kept', async t => {
  const tears: Record<string, (records: Buffer[]) => Buffer> = {
    'in a header': records =>
      Buffer.concat([writeLog(records.slice(0, 3)).subarray(0, -3), writeLog(records.slice(3))]),
    'one after the other': records =>
      Buffer.concat(records.flatMap((one, i) => (i % 4 === 1 ? writeLog([one]).subarray(0, 60) : writeLog([one])))),
    'several in a row': records =>
      Buffer.concat(records.map((one, i) => (i % 6 < 4 ? writeLog([one]).subarray(0, 50 + i) : writeLog([one])))),
    'between fragments': records =>
      Buffer.concat(records.map((one, i) => (i === 7 ? writeLog([one]).subarray(0, 32_768) : writeLog([one])))),
  }
  const folder = testFolder(t)
  for (const [name, tear] of Object.entries(tears)) {
    const logged: unknown[] = []
    const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
    let complete: Buffer[] = []
    const path = await tornStore(t, mkdtempSync(join(folder, 'torn-')), records => {
      const bytes = tear(records)
      complete = readLog(bytes).records as Buffer[]
      return bytes
    })
    const store = await openLevelStore(path, log)
    const found = await store.list('k/')
    t.equal(found.length, complete.length, name)
    t.ok(complete.length >= 10, `${complete.length} complete records`)
    t.match(logged, [{ code: 'SLUICE_STORE_REPAIRED', records: complete.length }], name)
    t.equal(readdirSync(path).filter(file => file.endsWith('.log.damaged')).length, 1)
    await store.close()
  }
})

t.test(
  'a record that was complete and cannot be read: the store does not open, and a backup takes its place',
  async t => {
    const folder = testFolder(t)
    const dataDir = join(folder, 'data')
    const random = (bytes: number) => Buffer.alloc(bytes, 1)
    const state = await openState(dataDir, random)
    await state.store.write([put('a', 1)])
    await state.backup(join(folder, 'backup'))
    for (const key of ['b', 'c', 'd']) await state.store.write([put(key, 'value')])
    await state.close()
    const log = newestLog(join(dataDir, 'store'))
    const bytes = readFileSync(log)
    bytes[bytes.indexOf('value') + 2]! ^= 1
    writeFileSync(log, bytes)
    for (let i = 0; i < 2; i++)
      await t.rejects(openState(dataDir, random), {
        code: 'SLUICE_STORE_DAMAGED',
        message: /store is damaged: \d+ bytes of .*\.log, from offset \d+ on.*admin restore --replace/,
      })
    t.same(readFileSync(log), bytes, 'and nothing is changed')
    await restoreState(join(folder, 'backup'), dataDir, { replace: true })
    const restored = await openState(dataDir, random)
    t.equal(await restored.store.get('a'), 1)
    await restored.close()
  },
)

t.test('a record that is not what was saved is never given out', async t => {
  const folder = testFolder(t)
  const path = join(folder, 'store')
  const store = await openLevelStore(path)
  await store.write([put('k/a', { role: 'viewer' }), put('k/b', 1)])
  await store.close()
  const change = async (key: string, text: (before: string) => string) => {
    const level = new ClassicLevel(path)
    await level.put(key, text((await level.get(key)) ?? ''))
    await level.close()
  }
  const damaged = {
    code: 'SLUICE_STORE_DAMAGED',
    message: /store is damaged: the record k\/\w is not the one that was saved/,
  }
  const texts: [string, (before: string) => string][] = [
    ['k/a', text => text.replace('viewer', 'vhewer')],
    ['k/a', text => text.replace(/^./, 'x')],
    ['k/b', () => ''],
  ]
  for (const [key, text] of texts) {
    await change(key, text)
    const again = await openLevelStore(path)
    await t.rejects(again.get(key), damaged)
    await t.rejects(again.list('k/'), damaged)
    await t.rejects(again.write([put('c')], [put(key, 1)]), damaged)
    await t.rejects(again.backup(join(folder, 'backup')), damaged)
    t.equal(again.health().damagedReads, 4)
    await again.write([put('k/a', 1), put('k/b', 2)])
    t.same(valuesOf(await again.list('k/'), 'value'), [1, 2], 'it can be replaced')
    await again.close()
  }
  await change('k/a', () => '{"of":"an earlier version"}')
  const earlier = await openLevelStore(path)
  t.same(await earlier.get('k/a'), { of: 'an earlier version' })
  await earlier.write([put('k/a', 3)], [put('k/a', { of: 'an earlier version' })])
  t.equal(await earlier.get('k/a'), 3)
  await earlier.close()
})

t.test('a store that was removed or replaced while it is open acknowledges nothing', async t => {
  const path = join(testFolder(t), 'store')
  const logged: { code?: string; msg: string }[] = []
  const store = await openLevelStore(path, pino({}, { write: line => logged.push(JSON.parse(line)) }))
  t.teardown(() => store.close())
  await store.write([put('a')])
  renameSync(path, `${path}.away`)
  const refused = { code: 'SLUICE_STORE_UNUSABLE', message: /was removed or replaced while the service uses it/ }
  await t.rejects(store.write([put('b')]), refused)
  t.notOk(store.health().writable)
  mkdirSync(path)
  writeFileSync(join(path, 'LOCK'), '')
  await t.rejects(store.write([put('c')]), refused)
  t.equal(await store.get('a'), 'a', 'it can still be read')
  renameSync(path, `${path}.other`)
  renameSync(`${path}.away`, path)
  await store.write([put('d')])
  t.same(
    await afterKill(path, async left => [await left.get('a'), await left.get('b'), await left.get('d')]),
    ['a', undefined, 'd'],
    'when it is put back it is written to again',
  )
  t.same(
    logged.map(({ code, msg }) => code ?? msg),
    ['SLUICE_STORE_REPLACED', 'the store is back in its place; saving changes again'],
  )
})

t.test('a store that is removed during a write does not acknowledge it', async t => {
  const path = join(testFolder(t), 'store')
  const store = await openLevelStore(path)
  const { batch } = ClassicLevel.prototype
  t.teardown(async () => {
    ClassicLevel.prototype.batch = batch
    await store.close()
  })
  ClassicLevel.prototype.batch = function (this: ClassicLevel, ...args: unknown[]) {
    renameSync(path, `${path}.away`)
    return Reflect.apply(batch, this, args)
  } as typeof batch
  await t.rejects(store.write([put('a')]), { code: 'SLUICE_STORE_UNUSABLE', message: /was removed or replaced/ })
})

t.test('a lock that cannot be looked at is no reason to save nothing', async t => {
  const path = join(testFolder(t), 'store')
  const store = await openLevelStore(path)
  t.teardown(() => store.close())
  unlinkSync(join(path, 'LOCK'))
  symlinkSync('LOCK', join(path, 'LOCK'))
  await store.write([put('a')])
  t.equal(await store.get('a'), 'a')
})

t.test('damage behind the last valid record is a part of what was not acknowledged', t => {
  const [first, second] = [Buffer.alloc(20, 1), Buffer.alloc(30, 2)]
  const log = writeLog([first, second, Buffer.alloc(40_000, 3)])
  const damaged = Buffer.from(log)
  damaged[log.indexOf(second) + 5]! ^= 1
  t.match(readLog(damaged), { records: { length: 2 }, damages: [{ offset: 27, bytes: 37, incomplete: false }] })
  t.same(readLog(damaged.subarray(0, -1)), { records: [first], damages: [] }, 'the last one is not complete')
  t.end()
})
