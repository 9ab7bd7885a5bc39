import fs, { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, symlinkSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'
import t from 'tap'
import { writeAtomic } from '../../../src/lib/files/atomic-file.js'
import { makeFolder, makeFolderSync } from '../../../src/lib/files/make-folder.js'
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
  const makers = { async: makeFolder, sync: async (path: string, mode?: number) => makeFolderSync(path, mode) }
  for (const [name, make] of Object.entries(makers)) {
    await make(join(dir, name, 'b', 'c'), 0o700)
    t.equal(statSync(join(dir, name, 'b')).mode & 0o777, 0o700)
    await make(join(dir, name, 'b', 'c'))
    await Promise.all([1, 2, 3].map(n => make(join(dir, name, 'x', 'y', `${n}`))))
    t.ok(statSync(join(dir, name, 'x', 'y', '3')).isDirectory())
    await t.rejects(make(join(dir, 'file')), { code: 'EEXIST' })
    await t.rejects(make(join(dir, 'file', 'a', 'b')), { code: 'ENOTDIR' })
    // The recursive mkdir of Node.js never returns here.
    await t.rejects(make('/proc/sluice/state'), { code: 'ENOENT' })
  }
})

t.test('a file is synced before it is renamed, and its name and that of a new folder after', async t => {
  const dir = testFolder(t)
  const synced: string[] = []
  const anyHandle = await open(dir)
  const handles = Object.getPrototypeOf(anyHandle) as FileHandle
  await anyHandle.close()
  const { sync } = handles
  t.teardown(() => {
    handles.sync = sync
  })
  handles.sync = async function (this: FileHandle) {
    synced.push(readlinkSync(`/proc/self/fd/${this.fd}`))
    await sync.call(this)
  }
  await writeAtomic(join(dir, 'a'), 'one')
  t.same(synced.splice(0), [join(dir, 'a.new'), dir])
  await makeFolder(join(dir, 'b', 'c'))
  t.same(synced.splice(0), [dirname(dir), dir, join(dir, 'b')])
  await makeFolder(join(dir, 'b', 'c'))
  t.same(synced, [], 'once')
})

t.test('the name of a new folder is synced, after those of the folders above it', t => {
  const dir = testFolder(t)
  const synced: string[] = []
  let fails = false
  const { fsyncSync } = fs
  const put = (sync: typeof fsyncSync) => {
    fs.fsyncSync = sync
    syncBuiltinESMExports()
  }
  t.teardown(() => put(fsyncSync))
  put(fd => {
    const path = readlinkSync(`/proc/self/fd/${fd}`)
    if (fails && path === dir) throw Object.assign(new Error('EIO'), { code: 'EIO' })
    synced.push(path)
    fsyncSync(fd)
  })
  const made = (path: string) => {
    synced.length = 0
    makeFolderSync(path)
    return synced
  }
  t.same(made(join(dir, 'a', 'b')), [dirname(dir), dir, join(dir, 'a')])
  t.same(made(join(dir, 'a', 'b')), [], 'once')
  fs.rmdirSync(join(dir, 'a', 'b'))
  t.same(made(join(dir, 'a', 'b')), [join(dir, 'a')], 'and again, when it was made again')
  fails = true
  t.throws(() => makeFolderSync(join(dir, 'c', 'd')), { code: 'EIO' })
  fails = false
  t.same(made(join(dir, 'c', 'd')), [dir, join(dir, 'c')], 'also when it could not be synced the first time')
  t.end()
})
