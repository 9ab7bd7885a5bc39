import fs, {
  appendFileSync,
  cpSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { testFolder } from '../../../support/folder.js'
import { giveOwners } from '../../../support/habits-of-disks.js'
import { arrived, Receiver, settled, type Tailing, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

/** A folder in which several users may create files: only the owner of a log, or root, makes its rotated files. */

const APP = 33
const OTHER = 666
const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `line ${from + i}`)
const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')
const FIRST = numbered(0, 20)
const REST = numbered(20, 30)
const NEW = ['new 0', 'new 1']

function world(t: Test, include = '*.log') {
  const dir = testFolder(t, { 'app.log': asText(FIRST) })
  const path = join(dir, 'app.log')
  const own = giveOwners(t)
  own(path, APP)
  const create = (file: string, content: string | Buffer, uid: number) => {
    writeFileSync(file, content)
    own(file, uid)
  }
  /** As gzip does it: the copy has the owner of the file, which is gone then. */
  const compress = (from: string, to: string, uid: number) => {
    create(to, gzipSync(readFileSync(from)), uid)
    unlinkSync(from)
  }
  const options = { include: [join(dir, include)], rotate_wait: '50ms', scan_interval: '20ms' }
  return { dir, path, own, create, compress, options }
}

/** The paths that are opened during the test. */
function openedPaths(t: Test): Set<string> {
  const { openSync } = fs
  const opened = new Set<string>()
  fs.openSync = (...args) => {
    opened.add(String(args[0]))
    return openSync(...args)
  }
  t.teardown(() => {
    fs.openSync = openSync
  })
  return opened
}

const foreign = ({ log }: Tailing) => log.filter(({ code }) => code === 'SLUICE_FILE_FOREIGN')
const count = (run: Tailing) => run.value('sluice_file_foreign_total')

t.test('a file of another user with the name of a rotated file', async t => {
  const { path, create, options } = world(t)
  const opened = openedPaths(t)
  const run = await tail(options)
  await settled(run, FIRST.length)
  create(`${path}.1`, 'not of app\n', OTHER)
  for (const n of [2, 3, 4]) create(`${path}.${n}.gz`, gzipSync(Buffer.alloc(1_000_000)), OTHER)
  opened.clear()
  renameSync(path, `${path}.5`)
  create(path, asText(NEW), APP)
  await arrived(run, FIRST.length + NEW.length)
  await until('it is logged', () => foreign(run).length > 0)
  await run.scanned(3)
  t.same(run.out.texts(), [...FIRST, ...NEW])
  t.equal(count(run), 4)
  t.match(foreign(run), [{ uid: OTHER, log: 'app.log', log_uid: APP, files: 4 }])
  t.ok(foreign(run)[0]!.file!.startsWith(`${path}.`))
  for (const name of ['.1', '.2.gz', '.3.gz', '.4.gz']) t.notOk(opened.has(path + name), `${name} is not opened`)
})

/** FIRST is read, and REST is written while nothing runs. The log gets another owner with the next rotation. */
async function stopped(t: Test, include?: string) {
  const one = world(t, include)
  const run = await tail(one.options)
  await settled(run, FIRST.length)
  await run.stop()
  appendFileSync(one.path, asText(REST))
  return { ...one, checkpoints: run.checkpoints }
}

t.test('a log that is created with a new owner after each rotation', async t => {
  const { path, create, compress, options, checkpoints } = await stopped(t)
  compress(path, `${path}.1.gz`, APP)
  create(path, asText(NEW), 1001)
  const run = await tail(options, checkpoints)
  await arrived(run, REST.length + NEW.length)
  renameSync(path, `${path}.3`)
  create(`${path}.2`, 'never seen\n', 1001)
  create(path, 'newest\n', 1002)
  await settled(run, REST.length + NEW.length + 2)
  t.same(run.out.texts(), [...REST, ...NEW, 'never seen', 'newest'])
  t.same(foreign(run), [])
})

for (const copied of ['all keep the old owner', 'all have the new owner', 'only the rotated ones keep the old owner'])
  t.test(`logs that were copied to a machine where the log has another owner: ${copied}`, async t => {
    const { dir, path, own, create, compress, options, checkpoints } = await stopped(t)
    const moved = copied === 'all have the new owner' ? 1001 : APP
    compress(path, `${path}.3.gz`, APP)
    create(`${path}.2`, 'never seen\n', APP)
    create(path, 'written last\n', copied === 'all keep the old owner' ? APP : 1001)
    cpSync(dir, `${dir}-copy`, { recursive: true, preserveTimestamps: true })
    rmSync(dir, { recursive: true })
    renameSync(`${dir}-copy`, dir)
    for (const name of ['.3.gz', '.2']) own(path + name, moved)
    own(path, copied === 'all keep the old owner' ? APP : 1001)
    const run = await tail(options, checkpoints)
    await arrived(run, REST.length + 2)
    renameSync(path, `${path}.1`)
    create(path, asText(NEW), 1001)
    await settled(run, REST.length + 2 + NEW.length)
    t.same(run.out.texts().sort(), [...REST, 'never seen', 'written last', ...NEW].sort())
    t.same(foreign(run), [])
  })

t.test('a log whose owner changed while it was read', async t => {
  const { path, own, compress, options } = world(t)
  const run = await tail(options)
  await settled(run, FIRST.length)
  own(path, 1001)
  appendFileSync(path, 'touched\n')
  await settled(run, FIRST.length + 1)
  await run.stop()
  appendFileSync(path, asText(REST))
  compress(path, `${path}.1.gz`, 1001)
  const next = await tail(options, run.checkpoints)
  await settled(next, REST.length)
  t.same(next.out.texts(), REST)
})

t.test('rotated files that root made', async t => {
  const { path, create, compress, options, checkpoints } = await stopped(t)
  compress(path, `${path}.2.gz`, 0)
  create(`${path}.1`, 'never seen\n', 0)
  create(path, asText(NEW), APP)
  const run = await tail(options, checkpoints)
  await settled(run, REST.length + 1 + NEW.length)
  t.same(run.out.texts(), [...REST, 'never seen', ...NEW])
})

t.test('a position without an owner, of an earlier version', async t => {
  const { path, compress, options, checkpoints } = await stopped(t)
  for (const file of (checkpoints.document as { files: { uid?: number }[] }).files) delete file.uid
  compress(path, `${path}.1.gz`, OTHER)
  const run = await tail(options, checkpoints)
  await settled(run, REST.length)
  t.same(run.out.texts(), REST)
})

/** How another user may pretend to have the rest of a log that is gone, or hide that it is lost. */
const PRETENCES: Record<string, (one: ReturnType<typeof world>) => void> = {
  'a copy': ({ path, create }) => create(`${path}.1`, asText([...FIRST, 'not of app']), OTHER),
  'a compressed copy': ({ path, create }) => create(`${path}.1.gz`, gzipSync(asText([...FIRST, 'not of app'])), OTHER),
  'a damaged copy': ({ path, create }) => create(`${path}.1.gz`, 'this is not made by gzip', OTHER),
}

for (const include of ['*.log', '*'])
  for (const [what, pretend] of Object.entries(PRETENCES))
    t.test(`${what} of another user is not the rest of a log that is gone, include: ${include}`, async t => {
      const one = world(t, include)
      const { path, options } = one
      const out = new Receiver()
      out.hold = true
      const run = await tail(options, undefined, out)
      await settled(run, FIRST.length)
      await run.stop()
      pretend(one)
      unlinkSync(path)
      one.create(path, asText(NEW), APP)
      const next = await tail(options, run.checkpoints)
      await until(() => next.value('sluice_file_lost_bytes_total') === asText(FIRST).length, { show: () => next.log })
      await arrived(next, NEW.length)
      await next.scanned(3)
      t.same(next.out.texts(path), NEW)
    })

t.test('a compressed file of another user does not hide that a log is lost that never could be opened', async t => {
  const { path, create, options } = world(t)
  const { openSync } = fs
  t.teardown(() => {
    fs.openSync = openSync
  })
  fs.openSync = (...args) => {
    if (args[0] === path) throw Object.assign(new Error('locked'), { code: 'EACCES' })
    return openSync(...args)
  }
  const run = await tail(options)
  await until('the report', () => run.value('sluice_files_unreadable') === 1)
  create(`${path}.1.gz`, gzipSync(asText([...FIRST, 'not of app'])), OTHER)
  unlinkSync(path)
  await until('it is lost', () => run.value('sluice_file_lost_bytes_total') === asText(FIRST).length)
  await run.scanned(3)
  t.same(run.out.texts(), [])
})

t.test('a file of another user that matches include is read under its own name', async t => {
  const { path, create, options } = world(t, '*')
  const run = await tail(options)
  await settled(run, FIRST.length)
  create(`${path}.1`, asText([...FIRST, 'more']), OTHER)
  create(`${path}.2`, 'something else\n', OTHER)
  create(`${path}.3.gz`, gzipSync('compressed\n'), OTHER)
  renameSync(path, `${path}.4`)
  create(path, asText(NEW), APP)
  await settled(run, 2 * FIRST.length + 1 + 2 + NEW.length)
  t.same(run.out.texts(path), [...FIRST, ...NEW])
  t.same(run.out.texts(`${path}.1`), [...FIRST, 'more'])
  t.same(run.out.texts(`${path}.2`), ['something else'])
  t.same(run.out.texts(`${path}.3.gz`), ['compressed'])
  t.same(foreign(run), [])
})

t.test('another user links a rotated name to a file of root', async t => {
  const { dir, path, own, create, options } = world(t)
  const run = await tail(options)
  await settled(run, FIRST.length)
  create(join(dir, 'secret'), 'secret of root\n', 0)
  symlinkSync(join(dir, 'secret'), `${path}.2`)
  own(`${path}.2`, OTHER)
  renameSync(path, `${path}.1`)
  create(path, asText(NEW), APP)
  await settled(run, FIRST.length + NEW.length)
  await run.scanned(3)
  t.same(run.out.texts(), [...FIRST, ...NEW])
  t.match(foreign(run), [{ file: `${path}.2` }])
  await run.stop()
})

for (const isCompressed of [false, true])
  t.test(`the log is given to another user and ${isCompressed ? 'compressed' : 'copied'}, during a stop`, async t => {
    const { path, own, create, compress, options } = world(t)
    const first = await tail(options)
    await settled(first, FIRST.length)
    await first.stop()
    own(path, OTHER)
    appendFileSync(path, asText(REST))
    if (isCompressed) compress(path, `${path}.1.gz`, OTHER)
    else create(`${path}.1`, readFileSync(path), OTHER)
    create(path, asText(NEW), OTHER)
    const run = await tail(options, first.checkpoints)
    await settled(run, REST.length + NEW.length)
    await run.scanned(3)
    t.same(run.out.texts(), [...REST, ...NEW])
    await run.stop()
  })
