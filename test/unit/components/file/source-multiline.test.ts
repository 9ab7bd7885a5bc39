import { appendFileSync, linkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { CONTINUES } from '../../../../src/lib/lines/line-splitter.js'
import { testFolder } from '../../../support/folder.js'
import { TestTime, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

interface Saved {
  readonly files: readonly {
    readonly offset: number
    readonly carry?: number
    readonly tail: { readonly bytes: number }
  }[]
}

const multiline = (timeout: string) => ({ start: '^S', timeout })

t.test('what waits is not cut where appends are not seen at once', async t => {
  const dir = testFolder(t, { logs: { 'a.log': 'S1\n a\n' }, elsewhere: {} })
  const path = join(dir, 'logs/a.log')
  const other = join(dir, 'elsewhere/a.log')
  linkSync(path, other)
  const clock = new TestTime()
  clock.hold()
  const options = { include: [path], scan_interval: '1h', multiline: multiline('200ms') }
  const run = await tail(options, undefined, undefined, clock)
  await run.read(path)
  // Under a name in a folder that nobody watches.
  appendFileSync(other, ' b\n')
  clock.release()
  await until('delivered', () => run.out.lines.length > 0)
  await run.stop()
  t.same(run.out.texts(), ['S1\n a\n b'])
})

t.test('the position between events is known by what is before it, however they were read', async t => {
  const dir = testFolder(t, { 'a.log': 'S1\n a\n' })
  const path = join(dir, 'a.log')
  const run = await tail({ include: [path], partial_line_at_stop: 'keep', multiline: multiline('1h') })
  await run.read(path)
  const line = `S2 ${'x'.repeat(5000)}`
  appendFileSync(path, line)
  await run.read(path)
  await run.scanned()
  appendFileSync(path, '\n')
  await until('the first event', () => run.out.lines.length === 1)
  await run.stop()
  t.same(run.out.texts(), ['S1\n a'])
  t.match((run.checkpoints.document as Saved).files, [{ offset: 6, tail: { bytes: 6 } }])
  const next = await tail({ include: [path], multiline: multiline('50ms') }, run.checkpoints)
  await until('the second event', () => next.out.lines.length === 1)
  appendFileSync(path, ' late\n')
  await until('its rest', () => next.out.lines.length === 2)
  await next.stop()
  t.match(next.out.lines, [
    { text: line, flags: 1 },
    { text: ' late', flags: 1 | CONTINUES },
  ])
  const { files } = next.checkpoints.document as Saved
  t.match(files, [{ offset: line.length + 13, carry: 1 }], 'that it may go on is saved')
  appendFileSync(path, ' later\nS3\n')
  const last = await tail({ include: [path], multiline: multiline('50ms') }, next.checkpoints)
  await until('more of its rest', () => last.out.lines.length === 2)
  await last.stop()
  t.match(last.out.lines, [
    { text: ' later', flags: 1 | CONTINUES },
    { text: 'S3', flags: 1 },
  ])
})

t.test('a batch that is given back comes again as the same events', async t => {
  const dir = testFolder(t, { 'a.log': 'S1\n a\nS2\n' })
  const path = join(dir, 'a.log')
  const run = await tail({ include: [path], multiline: { ...multiline('30ms'), max_lines: 2 } })
  await until('both', () => run.out.lines.length === 2)
  run.out.hold = true
  appendFileSync(path, ' b\n c\n d\n e\nS3\n')
  await until('more', () => run.out.lines.length === 5)
  const first = run.out.lines.slice(2)
  run.out.settle('errored')
  await t.rejects(run.run, /was not delivered/)
  run.out.hold = false
  run.again().catch(() => {})
  await until('again', () => run.out.lines.length === 8)
  await run.stop()
  t.same(run.out.lines.slice(5), first)
  t.same(
    first.map(({ text }) => text),
    [' b\n c', ' d\n e', 'S3'],
  )
  t.equal(first[0]!.flags & CONTINUES, CONTINUES)
})
