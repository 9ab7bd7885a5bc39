import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { writeAtomic } from '../../../src/lib/files/atomic-file.js'
import { makeFolder } from '../../../src/lib/files/make-folder.js'
import { testFolder } from '../../support/folder.js'

t.test('replaces a file as a whole', async t => {
  const dir = testFolder(t)
  const path = join(dir, 'a')
  await writeAtomic(path, 'one', `${path}.1`)
  t.notOk(existsSync(`${path}.1`))
  t.equal(statSync(path).mode & 0o777, 0o600)
  await writeAtomic(path, Buffer.from('two'), `${path}.1`)
  t.equal(readFileSync(path, 'utf8'), 'two')
  t.equal(readFileSync(`${path}.1`, 'utf8'), 'one')
  await writeAtomic(path, 'three')
  t.same(readdirSync(dir), ['a', 'a.1'])
})

t.test('a failure leaves the old content, and nothing else', async t => {
  const dir = testFolder(t, { a: 'old' })
  symlinkSync('/dev/full', join(dir, 'a.new'))
  await t.rejects(writeAtomic(join(dir, 'a'), 'new'), { code: 'ENOSPC' })
  t.equal(readFileSync(join(dir, 'a'), 'utf8'), 'old')
  t.same(readdirSync(dir), ['a'])
  await t.rejects(writeAtomic(join(dir, 'missing', 'a'), 'new'), { code: 'ENOENT' })
  mkdirSync(join(dir, 'folder'))
  await t.rejects(writeAtomic(join(dir, 'folder'), 'new'))
  t.same(readdirSync(dir).sort(), ['a', 'folder'])
})

t.test('folders are created with those above, and what cannot be ends in an error', async t => {
  const dir = testFolder(t, { file: '' })
  await makeFolder(join(dir, 'a', 'b', 'c'), 0o700)
  t.equal(statSync(join(dir, 'a', 'b')).mode & 0o777, 0o700)
  await makeFolder(join(dir, 'a', 'b', 'c'))
  await Promise.all([1, 2, 3].map(n => makeFolder(join(dir, 'x', 'y', `${n}`))))
  t.ok(statSync(join(dir, 'x', 'y', '3')).isDirectory())
  await t.rejects(makeFolder(join(dir, 'file')), { code: 'EEXIST' })
  await t.rejects(makeFolder(join(dir, 'file', 'a', 'b')), { code: 'ENOTDIR' })
  // The recursive mkdir of Node.js never returns here.
  await t.rejects(makeFolder('/proc/sluice/state'), { code: 'ENOENT' })
})

t.test('a file is synced before it is renamed, and its name and that of a new folder after', async t => {
  const dir = testFolder(t)
  const synced: string[] = []
  let fails = false
  const anyHandle = await open(dir)
  const handles = Object.getPrototypeOf(anyHandle) as FileHandle
  await anyHandle.close()
  const { sync } = handles
  t.teardown(() => {
    handles.sync = sync
  })
  handles.sync = async function (this: FileHandle) {
    const path = readlinkSync(`/proc/self/fd/${this.fd}`)
    if (fails && path === dir) throw Object.assign(new Error('EIO'), { code: 'EIO' })
    synced.push(path)
    await sync.call(this)
  }
  await writeAtomic(join(dir, 'a'), 'one')
  t.same(synced.splice(0), [join(dir, 'a.new'), dir])
  const made = async (path: string) => {
    synced.length = 0
    await makeFolder(path)
    return synced
  }
  t.same(await made(join(dir, 'b', 'c')), [dirname(dir), dir, join(dir, 'b')], 'after those of the folders above it')
  t.same(await made(join(dir, 'b', 'c')), [], 'once')
  rmdirSync(join(dir, 'b', 'c'))
  t.same(await made(join(dir, 'b', 'c')), [join(dir, 'b')], 'and again, when it was made again')
  fails = true
  await t.rejects(makeFolder(join(dir, 'd', 'e')), { code: 'EIO' })
  fails = false
  t.same(await made(join(dir, 'd', 'e')), [dir, join(dir, 'd')], 'also when it could not be synced the first time')
})
