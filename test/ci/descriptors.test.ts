import { appendFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { limitOpenFiles } from '../support/file-limit.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { settled, tail } from '../support/tailing.js'
import { until } from '../support/until.js'

/** The limit counts all that the process has open, so that no other test may be in it. */

t.test('all sources together leave half of the descriptors to others, and every file has its turn', async t => {
  const prlimit = needs(t, 'prlimit')
  if (!prlimit) return
  t.teardown(limitOpenFiles(prlimit, 84))
  const FILES = 40
  const names = Array.from({ length: FILES }, (_, i) => `${i}.log`)
  const files = () => Object.fromEntries(names.map(name => [name, `${name} 0\n`]))
  const dir = testFolder(t, { a: files(), b: files() })
  const runs = [await tail({ include: [join(dir, 'a/*.log')] }), await tail({ include: [join(dir, 'b/*.log')] })]
  for (const run of runs) await settled(run, FILES)
  for (const folder of ['a', 'b']) {
    for (const name of names.slice(0, FILES / 2)) {
      const path = join(dir, folder, name)
      appendFileSync(path, `${name} 1\n`)
      renameSync(path, `${path}.1`)
      writeFileSync(path, `${name} 2\n`)
    }
  }
  for (const run of runs) await settled(run, 2 * FILES)
  for (const [i, run] of runs.entries()) {
    for (const name of names.slice(0, FILES / 2))
      t.same(run.out.texts(join(dir, i === 0 ? 'a' : 'b', name)), [`${name} 0`, `${name} 1`, `${name} 2`])
    t.notOk(run.log.find(({ cause }) => cause === 'EMFILE'))
  }
  await until('half of them are free', () => runs.reduce((sum, run) => sum + run.value('sluice_files_open')!, 0) <= 42)
  for (const run of runs) await run.stop()
})
