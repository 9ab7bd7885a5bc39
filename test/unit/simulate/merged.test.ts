import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { testFolder } from '../../support/folder.js'
import { Seeded } from '../../support/seeded.js'
import { callSimulate } from '../../support/simulate.js'

const lines = (events: readonly object[]) => events.map(event => `${JSON.stringify(event)}\n`).join('')

t.test(
  'several files are replayed in the order of their times, so keys that they share are counted together',
  async t => {
    const random = new Seeded(4)
    let at = Date.parse('2031-02-03T00:00:00Z')
    const events = Array.from({ length: 30_000 }, () => ({
      time: new Date((at += 1 + random.below(40))).toISOString(),
      app: `app-${random.below(1 + random.below(9))}`,
      // Longer than one piece of a file.
      text: 'x'.repeat(random.below(80)),
    }))
    const parts = { a: [] as object[], b: [] as object[], rotated: [] as object[], last: [] as object[] }
    for (const [n, event] of events.entries())
      parts[n > 20_000 ? (n % 5 === 0 ? 'b' : 'last') : n > 9000 ? random.pick(['a', 'b'] as const) : 'rotated'].push(
        event,
      )
    const folder = testFolder(t, {
      all: lines(events),
      a: lines(parts.a),
      b: lines(parts.b),
      last: lines(parts.last),
      empty: '',
    })
    writeFileSync(join(folder, 'rotated.gz'), gzipSync(lines(parts.rotated)))
    const args = '--time .time --key .app --limit 3,20 --window 1s --json'.split(' ')
    const ask = async (more: readonly string[], files: readonly string[], input = '') => {
      const { code, stdout, stderr } = await callSimulate([...args, ...more, ...files], input)
      t.equal(code, 0, stderr)
      const { inputs: _, notes: __, settings: ___, ...result } = JSON.parse(stdout) as Record<string, unknown>
      return result
    }
    const path = (name: string) => join(folder, name)
    const all = await ask([], [path('all')])
    const files = ['a', 'last', 'empty', 'rotated.gz', 'b'].map(path)
    t.same(await ask([], files), all)
    const piped = files.map(file => (file === path('a') ? '-' : file))
    t.same(await ask([], piped, lines(parts.a)), all, 'one of them is standard input')
    t.same(
      await ask(['--backlog'], piped, lines(parts.a)),
      await ask(['--backlog'], [path('all')]),
      'which is copied if it is read twice',
    )
  },
)

t.test('lines without a time before the first time do not delay an input', async t => {
  const folder = testFolder(t, {
    a: `# started\n${lines([{ time: 1000 }, { time: 3000 }])}`,
    b: lines([{ time: 2000 }]),
    none: 'x\ny\n',
  })
  const files = ['none', 'a', 'b'].map(name => join(folder, name))
  const { stdout } = await callSimulate(['--time', '.time', '--limit', '1', '--window', '1500ms', '--json', ...files])
  const { results } = JSON.parse(stdout) as { results: { passed: number; over_time: { passed: number[] } }[] }
  // Those at 1,000 and 3,000 ms, of each the first one.
  t.match(results, [{ passed: 2, discarded: 4 }])
})
