import { pino } from 'pino'
import t from 'tap'
import { PathProblems } from '../../../../src/components/file/path-problems.js'
import { Losses } from '../../../../src/components/file/rotation/losses.js'
import type { SourceContext } from '../../../../src/core/component.js'
import { problemsIn } from '../../../support/facts.js'
import { registerFacts } from '../../../support/file-facts.js'

const log = pino({ level: 'silent' })
const contextOf = (more: object) => ({ log, ...more }) as unknown as SourceContext

t.test('a file system that does not answer is reported, rather than that there are no files', async t => {
  const seen = (numbers: Readonly<Record<string, number>>) =>
    problemsIn('in', metrics => registerFacts(metrics, numbers))
  const [problem, ...more] = seen({ watched: 0, silent: 1 })
  t.match(problem, { what: 'in: 1 file system does not answer', todo: /SLUICE_FILE_SYSTEM_SILENT/ })
  t.same(more, [])
  t.match(seen({ watched: 0 }), [{ what: /did not find any file to read/ }])
  t.same(seen({ watched: 0, unreadable: 1 }), [])
  t.same(seen({ watched: 1 }), [])
  t.match(seen({ deleted: 12_000 }), [
    { what: /^in: 12\.0kB of deleted files are not delivered/, todo: /^A restart loses them/ },
  ])
})

t.test('bytes of files that nobody can read any more', async t => {
  const seen = (...sizes: number[]) =>
    problemsIn('in', metrics => {
      let now = 0
      const losses = new Losses(contextOf({ metrics, clock: { wall: () => now } }))
      for (const [i, bytes] of sizes.entries()) {
        now = i * 1000
        losses.report({ file: `/${'abcde'[i]}.log`, bytes, since: undefined, kind: 'vanished', msg: 'gone' })
      }
    })
  t.same(seen(), [])
  t.match(seen(12_000), [{ what: 'in has lost 12.0kB of its files since the daemon started' }])
  t.match(
    seen(1000, 2000, 3000, 4000, 5000)[0]!.detail,
    /^5.00kB of \/e.log \(last at \d\d:\d\d:04\), 4.00kB of \/d.log .*, 3.00kB of \/c.log .* and 2 other files\.$/,
  )
})

t.test('of a file that cannot be read it is said what helps, also if its records cannot be delimited', async t => {
  const advice = {
    EACCES: /^Let the user .*permission r/,
    'UTF-16': /^Write .*iconv -f UTF-16/,
    'UTF-32': /^Write .*iconv -f UTF-32/,
    'byte 4: x': /^Set decode .* include/,
  }
  for (const [cause, todo] of Object.entries(advice)) {
    const seen = problemsIn('app', metrics => {
      const problems = new PathProblems(contextOf({ metrics }))
      problems.refused('/var/log/a.log', cause)
      for (let n = 0; n < 7; n++) problems.refused(`/var/log/${n}.log`, 'EIO')
    })
    t.match(seen, [{ what: 'app: 8 files cannot be read', todo }])
    t.ok(seen[0]!.detail!.startsWith(`/var/log/a.log (${cause}), /var/log/0.log (EIO), `))
    t.match(seen[0]!.detail, / and \d other files?\.$/)
  }
})
