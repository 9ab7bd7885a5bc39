import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { fileDestination } from '../../../../src/components/file/destination.js'
import { stdin } from '../../../../src/components/stdio/source.js'
import { ConfigWatch } from '../../../../src/daemon/run/watch.js'
import { loadConfig } from '../../../../src/engine/config/load.js'
import { testFolder } from '../../../support/folder.js'

const text = (path: string) =>
  `sources: { in: { type: stdin } } # é\ndestinations: { out: { type: file, inputs: [in], path: ${path} } }\n`

/** A configuration that is watched, and how often it was told to have changed. */
function watched(t: Test, path: string, others: readonly string[] = []) {
  const { digest } = loadConfig(path, { env: {}, components: [stdin, fileDestination] })
  let told = 0
  let busy: Promise<void> | undefined
  const watch = new ConfigWatch({ path, digest, others: () => others }, () => {
    told++
    return busy ?? Promise.resolve()
  })
  t.teardown(() => watch.set(false))
  return {
    watch,
    hold: (until: Promise<void>) => {
      busy = until
    },
    /** Looks until nothing more can come of it. */
    async looks() {
      const before = told
      for (let i = 0; i < 4; i++) await watch.poll()
      return told - before
    },
  }
}

t.test('the file of a plugin', async t => {
  const folder = testFolder(t, { 'sluice.yaml': text('a'), 'company.js': '1' })
  const plugin = join(folder, 'company.js')
  const { looks } = watched(t, join(folder, 'sluice.yaml'), [plugin])
  t.equal(await looks(), 0, 'as it was loaded')
  // Each time of another size: two writes may have the same time.
  writeFileSync(plugin, '22')
  t.equal(await looks(), 1, 'written')
  rmSync(plugin)
  t.equal(await looks(), 1, 'gone: to be told once')
})

t.test('a file', async t => {
  const folder = testFolder(t, { 'sluice.yaml': text('a') })
  const path = join(folder, 'sluice.yaml')
  const { watch, looks, hold } = watched(t, path)
  t.equal(await looks(), 0, 'as it was read')
  writeFileSync(path, text('bb'))
  t.equal(await looks(), 1, 'written in place')
  utimesSync(path, 1, 1)
  t.equal(await looks(), 0, 'the same text')
  writeFileSync(`${path}.new`, text('c'))
  renameSync(`${path}.new`, path)
  t.equal(await looks(), 1, 'replaced as a whole')
  rmSync(path)
  t.equal(await looks(), 1, 'gone: to be told once')
  writeFileSync(path, text('c'))
  t.equal(await looks(), 1, 'there again')

  writeFileSync(path, text('d'))
  await watch.poll()
  writeFileSync(path, `${text('d')}# still being written\n`)
  await watch.poll()
  writeFileSync(path, `${text('d')}# done\n`)
  t.equal(await looks(), 1, 'not before it keeps still')
  writeFileSync(path, text('e'))
  watch.read()
  t.equal(await looks(), 0, 'what was read for another reason')

  let release = () => {}
  hold(new Promise(resolve => (release = resolve)))
  writeFileSync(path, text('ff'))
  await watch.poll()
  const taken = watch.poll()
  writeFileSync(path, text('ggg'))
  t.equal(await looks(), 0, 'while the change before it is taken up')
  release()
  await taken
  t.equal(await looks(), 1, 'and then')
})

t.test('a folder', async t => {
  const folder = testFolder(t, { conf: { 'a.yaml': text('a') } })
  const path = join(folder, 'conf')
  const { looks } = watched(t, path)
  t.equal(await looks(), 0)
  writeFileSync(join(path, 'b.yaml'), 'metrics: false\n')
  t.equal(await looks(), 1, 'one more file')
  writeFileSync(join(path, '.b.yaml.swp'), 'x')
  writeFileSync(join(path, 'notes.txt'), 'x')
  t.equal(await looks(), 0, 'files that do not belong to it')
  renameSync(join(path, 'b.yaml'), join(path, 'c.yaml'))
  t.equal(await looks(), 1, 'another name: another order, and other messages')
})

t.test('links that are switched, as those of a ConfigMap', async t => {
  const folder = testFolder(t)
  const publish = (version: string, path: string) => {
    mkdirSync(join(folder, version))
    writeFileSync(join(folder, version, 'sluice.yaml'), text(path))
    symlinkSync(version, join(folder, '..data_tmp'))
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  }
  publish('..1', 'a')
  symlinkSync('..data/sluice.yaml', join(folder, 'sluice.yaml'))
  for (const path of [join(folder, 'sluice.yaml'), folder]) {
    const { looks } = watched(t, path)
    t.equal(await looks(), 0)
    publish(`..2${path.length}`, `b${path.length}`)
    t.equal(await looks(), 1)
  }
})
