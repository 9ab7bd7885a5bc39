import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { writeAtomic } from '../../../src/lib/atomic-file.js'

t.test('replaces a file as a whole', async t => {
  const dir = t.testdir({})
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
  const dir = t.testdir({ a: 'old' })
  symlinkSync('/dev/full', join(dir, 'a.new'))
  await t.rejects(writeAtomic(join(dir, 'a'), 'new'), { code: 'ENOSPC' })
  t.equal(readFileSync(join(dir, 'a'), 'utf8'), 'old')
  t.same(readdirSync(dir), ['a'])
  await t.rejects(writeAtomic(join(dir, 'missing', 'a'), 'new'), { code: 'ENOENT' })
  mkdirSync(join(dir, 'folder'))
  await t.rejects(writeAtomic(join(dir, 'folder'), 'new'))
  t.same(readdirSync(dir).sort(), ['a', 'folder'])
})
