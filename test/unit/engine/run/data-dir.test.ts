import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs, {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { lockDataDir } from '../../../../src/engine/run/state/data-dir.js'
import { exposureOf } from '../../../../src/engine/run/state/exposure.js'
import { bound } from '../../../support/bound.js'
import { testFolder } from '../../../support/folder.js'
import { fill, Mounts, mayMount } from '../../../support/mounts.js'

const noMount = mayMount() ? false : 'only root can make a small file system, and not in every container'

const module = join(dirname(fileURLToPath(import.meta.url)), '../../../../src/engine/run/state/data-dir.js')
const script = `import { lockDataDir } from ${JSON.stringify(module)}
try { await lockDataDir(process.argv[1]); console.log('held') } catch (error) { console.log(error.code) }
setInterval(() => {}, 1000)`
const another = (dir: string) => spawn(...bound(process.execPath, ['--input-type=module', '-e', script, dir]))

/** What is in the folder beside the spare file. */
const namesIn = (dir: string) => readdirSync(dir).filter(name => name !== 'lock.spare')

t.test('one holder at a time', async t => {
  const dir = join(testFolder(t), 'deep', 'state')
  const lock = await lockDataDir(dir)
  t.equal(statSync(dir).mode & 0o777, 0o700)
  await t.rejects(lockDataDir(dir), {
    code: 'SLUICE_DATA_DIR_IN_USE',
    message: new RegExp(`${dir} is in use by another sluice, process ${process.pid}; stop that process`),
  })
  lock.release()
  lock.release()
  const second = await lockDataDir(dir)
  lock.release()
  await t.rejects(lockDataDir(dir), { code: 'SLUICE_DATA_DIR_IN_USE' }, 'an old release does not free a new lock')
  second.release()
  t.equal(namesIn(dir).length, 1)
})

t.test('a folder that was removed or replaced is taken again, unless another process has it', async t => {
  const dir = join(testFolder(t), 'state')
  const lock = await lockDataDir(dir)
  t.equal(await lock.renew(), false)
  rmSync(dir, { recursive: true })
  t.equal(await lock.renew(), true)
  t.equal(await lock.renew(), false)
  rmSync(dir, { recursive: true })
  const child = another(dir)
  t.equal(String((await once(child.stdout, 'data'))[0]).trim(), 'held')
  await t.rejects(lock.renew(), { code: 'SLUICE_DATA_DIR_IN_USE' })
  child.kill('SIGKILL')
  await once(child, 'exit')
  t.equal(await lock.renew(), true)
  lock.release()
})

t.test('a killed holder does not block the next, a living one does', async t => {
  const dir = testFolder(t)
  const child = another(dir)
  t.equal(String((await once(child.stdout, 'data'))[0]).trim(), 'held')
  await t.rejects(lockDataDir(dir), { message: new RegExp(`process ${child.pid};`) })
  child.kill('SIGKILL')
  await once(child, 'exit')
  const free = await lockDataDir(dir)
  free.release()
})

t.test('a process of another PID namespace asks the holder by its socket', async t => {
  const dir = testFolder(t)
  const child = another(dir)
  t.equal(String((await once(child.stdout, 'data'))[0]).trim(), 'held')
  const message = new RegExp(`process ${child.pid} of another PID namespace, such as a container; stop`)
  await t.rejects(lockDataDir(dir, 'pid:[1]'), { code: 'SLUICE_DATA_DIR_IN_USE', message, pid: undefined })
  child.kill('SIGSTOP')
  await t.rejects(lockDataDir(dir, 'pid:[1]'), { message }, 'also while it does not run')
  child.kill('SIGKILL')
  await once(child, 'exit')
  const lock = await lockDataDir(dir, 'pid:[1]')
  t.same(namesIn(dir).length, 2, 'what the killed one left is removed')
  const [name = ''] = readdirSync(dir).filter(name => name.endsWith('.sock'))
  await t.rejects(lockDataDir(dir), { message: /of another PID namespace/ })
  unlinkSync(join(dir, name))
  const second = await lockDataDir(dir)
  lock.release()
  await t.rejects(lockDataDir(dir), { code: 'SLUICE_DATA_DIR_IN_USE' }, 'the release of a lost lock frees nothing')
  second.release()
  t.same(namesIn(dir), ['lock.3'])
})

t.test('a holder is not taken for dead while no more files can be opened', async t => {
  const dir = testFolder(t)
  const lock = await lockDataDir(dir)
  const original = fs.readFileSync
  const patch = (replacement: unknown) => {
    fs.readFileSync = replacement as typeof original
    syncBuiltinESMExports()
  }
  t.teardown(() => patch(original))
  for (const name of ['boot_id', 'stat']) {
    patch((path: string, ...rest: unknown[]) => {
      if (!path.startsWith('/proc') || !path.endsWith(name)) return Reflect.apply(original, fs, [path, ...rest])
      throw Object.assign(new Error(`ENFILE: file table overflow, open '${path}'`), { code: 'ENFILE' })
    })
    await t.rejects(lockDataDir(dir), { code: 'SLUICE_DATA_DIR_UNUSABLE', message: /ENFILE.*no more files/ }, name)
  }
  patch(original)
  await t.rejects(lockDataDir(dir), { code: 'SLUICE_DATA_DIR_IN_USE' })
  lock.release()
})

t.test('many at once: one gets an abandoned lock', async t => {
  const dir = testFolder(t, { 'lock.7': '{"pid":999999999,"started":"1","boot":"x"}' })
  const children = Array.from({ length: 4 }, () => another(dir))
  const results = await Promise.all(children.map(async child => String((await once(child.stdout, 'data'))[0]).trim()))
  for (const child of children) child.kill('SIGKILL')
  t.same(results.sort(), ['SLUICE_DATA_DIR_IN_USE', 'SLUICE_DATA_DIR_IN_USE', 'SLUICE_DATA_DIR_IN_USE', 'held'])
  t.equal(readdirSync(dir).filter(name => /^lock\.\d+$/.test(name)).length, 1)
})

t.test('locks that bind nobody', async t => {
  const lock = await lockDataDir(testFolder(t))
  const mine = (dir: string) => JSON.parse(readFileSync(join(dir, 'lock.1'), 'utf8')) as Record<string, unknown>
  const held = mine(t.testdirName)
  lock.release()
  const dead = { ...held, pid: spawnSync('true').pid }
  for (const content of [
    '',
    '{"pid"',
    '{}',
    JSON.stringify(dead),
    JSON.stringify({ ...held, started: '1' }),
    JSON.stringify({ ...held, boot: 'another' }),
  ]) {
    const dir = testFolder(t, { 'lock.3': content })
    const free = await lockDataDir(dir)
    free.release()
    t.same(namesIn(dir), ['lock.4'], content)
  }
  await t.rejects(lockDataDir(testFolder(t, { 'lock.3': JSON.stringify(held) })), { code: 'SLUICE_DATA_DIR_IN_USE' })
})

t.test('a lock that cannot be read may be that of a living process', async t => {
  const dir = testFolder(t, { 'lock.3': t.fixture('symlink', 'lock.3') })
  await t.rejects(lockDataDir(dir), { code: 'SLUICE_DATA_DIR_UNUSABLE', message: /cannot read .*lock\.3: ELOOP/ })
  t.same(readdirSync(dir), ['lock.3'])
  unlinkSync(join(dir, 'lock.3'))
  spawnSync('mkfifo', [join(dir, 'lock.3')])
  await t.rejects(lockDataDir(dir), {
    code: 'SLUICE_DATA_DIR_UNUSABLE',
    message: /cannot read .*lock\.3: .*not a file/,
  })
  t.same(readdirSync(dir), ['lock.3'])
})

t.test('a number that has no successor', async t => {
  const dir = testFolder(t, { 'lock.999999999999999': '' })
  await t.rejects(lockDataDir(dir), { code: 'SLUICE_DATA_DIR_UNUSABLE', message: /remove it/ })
  t.same(readdirSync(dir), ['lock.999999999999999'])
})

t.test('a folder that cannot be used', async t => {
  const dir = testFolder(t, { file: '' })
  for (const path of [join(dir, 'file'), join(dir, 'file', 'below')]) {
    await t.rejects(lockDataDir(path), { code: 'SLUICE_DATA_DIR_UNUSABLE', message: /must be a folder/ })
  }
  mkdirSync(join(dir, 'ok', 'lock.spare'), { recursive: true })
  writeFileSync(join(dir, 'ok', 'lock.txt'), '')
  for (let start = 0; start < 2; start++) {
    const free = await lockDataDir(join(dir, 'ok'))
    free.release()
  }
})

t.test(
  'a file system that is full at the first start, or mounted for reading only, is the cause',
  { skip: noMount },
  async t => {
    const dir = join(testFolder(t, { state: {} }), 'state')
    const mounts = new Mounts()
    mounts.make(dir, '64k')
    try {
      fill(join(dir, 'fill'))
      const code = 'SLUICE_DATA_DIR_UNUSABLE'
      await t.rejects(lockDataDir(dir), { code, message: /ENOSPC: .*; free some disk space/ })
      unlinkSync(join(dir, 'fill'))
      mounts.onlyToBeRead(dir)
      await t.rejects(lockDataDir(dir), { code, message: /EROFS: .*; mount its file system for writing/ })
      mounts.toBeWritten(dir)
      const first = await lockDataDir(dir)
      first.release()
      fill(join(dir, 'fill'))
      for (let start = 0; start < 3; start++) {
        const lock = await lockDataDir(dir)
        await t.rejects(lockDataDir(dir), { code: 'SLUICE_DATA_DIR_IN_USE' }, 'it is held on a full disk, too')
        lock.release()
      }
    } finally {
      mounts.end()
    }
  },
)

t.test('which other users can change what is in a folder', async t => {
  const dir = join(testFolder(t, { state: {} }), 'state')
  const root = process.getuid!() === 0
  // Root is never another user.
  const [uid, gid] = root ? [12_345, 12_345] : [process.getuid!(), process.getgid!()]
  if (root) chownSync(dir, uid, gid)
  const owner = { uid, groups: [gid] }
  const other = { uid: uid + 1, groups: [gid] }
  chmodSync(dir, 0o755)
  t.equal(exposureOf(dir, owner), undefined)
  t.match(exposureOf(dir, other), `belongs to another user (uid ${uid})`)
  t.equal(exposureOf(dir, undefined), undefined)
  chmodSync(dir, 0o770)
  t.equal(exposureOf(dir, owner), undefined, 'the group is one of the daemon')
  t.match(exposureOf(dir, { uid, groups: [gid + 1] }), `(gid ${gid}) can write to ${dir}: chmod 700`)
  chmodSync(dir, 0o1777)
  t.match(exposureOf(dir, owner), /^every user of this machine can write/, 'others can put files there')
  t.equal(exposureOf(join(dir, 'none'), owner), undefined)
})
