import { appendFileSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isRunning } from '../support/bound.js'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { until } from '../support/until.js'

const config = (script: string, rest = '') => `sources: { in: { type: file, include: [in.log], decode: json } }
processors:
  mine: { type: script, inputs: [in], ${script} }
destinations: { out: { type: file, inputs: [mine], path: out.log } }
${rest}`

t.test('a script in a daemon: what fails is kept, a loop is ended, and a changed file is taken up', async t => {
  // Hardly busy: no other call takes as long as it may.
  const version = (n: number) => `import { of } from './version.js'
const cell = new Int32Array(new SharedArrayBuffer(4))
export default event => {
  if (event.fail) return event.nothing.at.all
  while (event.loop) Atomics.wait(cell, 0, 0, 100)
  return { ...event, version: of(${n}) }
}
`
  const folder = testFolder(t, { 'in.log': '', 'mine.js': version(1), 'version.js': 'export const of = n => n\n' })
  const write = (...events: object[]) =>
    appendFileSync(join(folder, 'in.log'), events.map(event => `${JSON.stringify(event)}\n`).join(''))
  const out = () => {
    const text = existsSync(join(folder, 'out.log')) ? readFileSync(join(folder, 'out.log'), 'utf8') : ''
    return text.split('\n').slice(0, -1)
  }
  const options = 'file: ./mine.js, on_error: dead_letter, timeout: 3s'
  const daemon = await startDaemon(t, folder, config(options, 'reload: watch\n'))
  write({ n: 1 }, { n: 2, fail: 1 }, { n: 3, loop: 1 }, { n: 4 })
  await daemon.until(() => out().length === 2)
  t.same(out(), ['{"n":1,"version":1}', '{"n":4,"version":1}'])
  // They are written behind what passes.
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_dead_letter_events_total') === 2)
  const letters = join(folder, 'state/dead-letter')
  const kept = readdirSync(letters).map(name => readFileSync(join(letters, name), 'utf8'))
  t.match(kept.join(''), /mine\.js:4:\d+: TypeError: Cannot read properties of undefined/)
  t.match(kept.join(''), /a call did not return within 3s/)
  t.ok(daemon.logs().some(({ code, component }) => code === 'SLUICE_SCRIPT_ENDED' && component === 'mine'))

  const reloads = (msg: string) => daemon.logs().filter(line => line.msg === msg)
  // A watch may see a file that is written in place while it is empty.
  const replace = (name: string, text: string) => {
    writeFileSync(join(folder, 'new'), text)
    renameSync(join(folder, 'new'), join(folder, name))
  }
  replace('version.js', 'export const of = n => n + 10\n')
  await daemon.until(() => reloads('configuration reloaded').length === 1)
  write({ n: 5 })
  await daemon.until(() => out().length === 3)
  t.equal(out()[2], '{"n":5,"version":11}', 'what it imports is watched, too')

  replace('mine.js', 'export default event =>\n')
  await daemon.until(() => reloads('cannot apply the new configuration; keeping the current one').length === 1)
  t.match(reloads('cannot apply the new configuration; keeping the current one')[0], { error: /mine\.js:2/ })
  write({ n: 6 })
  await daemon.until(() => out().length === 4)
  t.equal(out()[3], '{"n":6,"version":11}')
  const scrape = await daemon.scrape()
  t.equal(scrape.sum('sluice_script_restarts_total'), 2)
  scrape.conserves(t)
  await daemon.stop(t)
})

t.test('a call that never returns does not outlive the daemon', async t => {
  if (!needs(t, 'setpriv')) return
  const folder = testFolder(t, {
    'in.log': '{"n":1}\n',
    'mine.js': `import { writeFileSync } from 'node:fs'
export default event => {
  writeFileSync('pid', String(process.pid))
  const cell = new Int32Array(new SharedArrayBuffer(4))
  while (true) Atomics.wait(cell, 0, 0, 100)
}
`,
  })
  const daemon = await startDaemon(t, folder, config('file: ./mine.js, timeout: 1 Hours'))
  const written = () => (existsSync(join(folder, 'pid')) ? Number(readFileSync(join(folder, 'pid'), 'utf8')) : 0)
  const pid = await until(() => written() || undefined)
  t.ok(isRunning(pid))
  daemon.child.kill('SIGKILL')
  await until('the process of the script to end', () => !isRunning(pid))
})

t.test('validate and test load a script, from the folder of the configuration', async t => {
  const tests = 'tests: [{ name: adds, steps: [{ into: in, events: [{ n: 1 }] }], expect: { out: [{ n: 2 }] } }]\n'
  const folder = testFolder(t, {
    etc: {
      'sluice.yaml': config('file: ./mine.ts', tests),
      'text.yaml': config("code: 'e => ({ n: `${e.n + 1}` })'", tests.replace('n: 2', 'n: "2"')),
      'mine.ts': 'export default (event: { n: number }) => ({ n: event.n + 1 })\n',
      'broken.yaml': config('file: broken.js'),
      'broken.js': 'export default {}\n',
      'code.yaml': config('code: "event => {"'),
      'missing.yaml': config('file: missing.js'),
    },
  })
  const run = (...args: string[]) => command(args, { cwd: folder })
  t.match(await run('test', 'etc/sluice.yaml'), { code: 0, stdout: /^ok +adds$/m })
  t.match(await run('test', 'etc/text.yaml'), { code: 0 }, 'in code, ${} is that of JavaScript')
  const files = ['sluice', 'broken', 'code', 'missing'].map(name => `etc/${name}.yaml`)
  const { code, stdout, stderr } = await run('validate', ...files)
  t.equal(code, 78)
  t.match(stdout, /^etc\/sluice\.yaml: ok .*\n.*etc\/missing\.yaml: ok .*\n2 errors, \d warnings\n$/)
  t.match(
    stderr,
    /^etc\/broken\.yaml:3:\d+: processors\.mine\.file: the default export of .*broken\.js must be a function/m,
  )
  t.match(
    stderr,
    /^etc\/code\.yaml:3:\d+: processors\.mine\.code: line 1, column 11 of the code: Unexpected end of input$/m,
  )
  t.match(stderr, /^etc\/missing\.yaml:3:\d+: processors\.mine\.file: warning: the file .*missing\.js does not exist$/m)
})
