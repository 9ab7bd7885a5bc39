import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { command } from '../support/cli.js'
import { fileText } from '../support/file-text.js'
import { testFolder } from '../support/folder.js'
import { MACHINE_NAMES, type MachineName, makeMachine } from '../support/made-machines.js'
import { Receiver } from '../support/receiver.js'
import { sluice } from '../support/sluice.js'

/** The command `sluice init`, on machines that are folders. */

const PROPOSED: Record<MachineName, { logs: string[]; to: string; says: RegExp[]; event: RegExp }> = {
  nginx: {
    logs: ['nginx', 'nginx_errors'],
    to: 'loki=http://127.0.0.1:3100',
    says: [/nginx: \{"app":"nginx","client":"192\.0\.2\.\d"/, /^nginx +301 +1\d\d /m],
    event: /"app":"nginx"/,
  },
  debian: {
    logs: ['journal'],
    to: 'file=',
    says: [/syslog: .* \(in the journal, too\)/],
    event: /"app":"sshd","message":"entry 1"/,
  },
  redhat: {
    logs: ['apache', 'apache_errors', 'messages'],
    to: 'elasticsearch=http://127.0.0.1:9200',
    says: [/apache: apache, /, /messages: syslog, /],
    event: /"app":"(apache|sshd)"/,
  },
  database: {
    logs: ['postgresql'],
    to: 'kafka=127.0.0.1:9092',
    says: [/promtail runs: /],
    event: /SELECT 0\\n\\tFROM t"/,
  },
  docker: {
    logs: ['docker'],
    to: 'otlp=http://127.0.0.1:4318',
    says: [/names and labels of Docker containers/, /^ab12cd34ef56 +200 /m],
    event: /"message":"line 0".*"app":"ab12cd34ef56"/,
  },
  app: {
    logs: ['shop'],
    to: 'file=',
    says: [
      /OTLP over gRPC \(port 4317\)/,
      /Docker log drivers without files/,
      /names and labels of pods/,
      /^cart +300 /m,
    ],
    event: /"service":"mail".*"app":"mail"/,
  },
}

for (const name of MACHINE_NAMES) {
  t.test(`the machine ${name}: what it has is proposed, and the configuration delivers it`, async t => {
    const folder = testFolder(t)
    const root = join(folder, 'root')
    makeMachine(name, root)
    const env = { PATH: `${join(root, 'usr/bin')}:/usr/bin:${process.env.PATH}` }
    const { logs, to, says, event } = PROPOSED[name]

    const proposed = sluice(['init', '--yes', '--root', 'root', '--limit', '20'], { cwd: folder, env })
    t.equal(await proposed.exit, 0, proposed.stderr)
    for (const text of says) t.match(proposed.stdout, text)
    t.match(proposed.stdout, `  1  ${to}`)
    t.match(proposed.stdout, 'sluice.yaml: ok (')
    for (const line of proposed.stdout.split('\n')) t.ok(line.length <= 80, line)
    t.ok(
      proposed.stdout.split('\n\n').every(screen => screen.split('\n').length <= 22),
      'each part fits a screen',
    )
    const written = readFileSync(join(folder, 'sluice.yaml'), 'utf8')
    t.same(
      [...written.matchAll(/^ {2}(\w+):\n {4}type: (?:file|journald)\n {4}(?:include|read_from)/gm)].map(
        ([, id]) => id,
      ),
      logs,
    )
    t.match(written, /^# Written by sluice init.*All options: \/\S+\/config\/reference\.md/)

    const out = join(folder, 'out.ndjson')
    const args = ['init', '--yes', '--root', 'root', '--send', `file=${out}`, '--output', 'here.yaml']
    t.match(await command(args, { cwd: folder, env }), { code: 0 })
    const here = readFileSync(join(folder, 'here.yaml'), 'utf8').replace(/^data_dir: .*\n/m, '')
    // The paths of the machine, as they are seen from here.
    const moved = here
      .replace(/\/var\/(?=log|lib\/docker)/g, `${root}/var/`)
      .replace(/ 127\.0\.0\.1:9598/, ' 127.0.0.1:0')
    writeFileSync(join(folder, 'here.yaml'), moved)
    const daemon = sluice(['run', 'here.yaml'], { cwd: folder, env })
    await daemon.until(() => event.test(fileText(out)))
    daemon.child.kill()
    t.equal(await daemon.exit, 0)
  })
}

t.test('questions are asked until they are answered, and the key is tried', async t => {
  const folder = testFolder(t, {
    'app.log': '{"app":"cart","time":"2026-11-30T10:00:00Z"}\n',
    key: 'right\n',
    empty: {},
  })
  const receiver = await new Receiver({ authorization: 'Bearer right' }).listen()
  receiver.otherwise = 204
  t.teardown(() => receiver.close())
  const log = join(folder, 'app.log')
  const answers = ['no-such-log', log, 'ftp=x', `loki=${receiver.url('')}`, 'key', 'many', '5', 'app.log', 'mine.yaml']
  const asked = await command(['init', '--root', '/'], { cwd: folder, stdin: `${answers.join('\n')}\n` })
  t.match(asked, { code: 0, stderr: '' })
  for (const text of [
    'no-such-log is not a log above',
    '"ftp=x" must be one of',
    'app.log exists',
    'Events per second of each app [100]: ',
  ])
    t.match(asked.stdout, text)
  t.match(asked.stdout, /mine\.yaml: destinations\.upstream: ok \(accepts requests\)/)
  t.match(readFileSync(join(folder, 'mine.yaml'), 'utf8'), `auth: { type: bearer, key_file: ${join(folder, 'key')} }`)
  t.notMatch(receiver.requests.map(({ body }) => body).join(), 'cart', 'no event is sent')

  const flags = ['--yes', '--read', log, '--send', `loki=${receiver.url('')}`, '--key-file', 'app.log']
  const refused = await command(['init', ...flags, '--output', 'other.yaml'], { cwd: folder })
  t.match(refused, { code: 1, stderr: /other\.yaml:\d+:\d+: destinations\.upstream: .*401/ })
})

t.test('the newest lines count as live ones, also if the throttle would delay older ones', async t => {
  const names = Array.from({ length: 8 }, (_, i) => `without_a_time_${i}`)
  const folder = testFolder(t, {
    'shop.log': '{"app":"cart","time":"2026-11-30T10:00:00Z"}\n'.repeat(40),
    ...Object.fromEntries(names.map(name => [`${name}.log`, '{"app":"late"}\n'])),
  })
  const read = ['shop', ...names].map(name => `${name}.log`).join()
  const { code, stdout } = await command(['init', '--read', read], { cwd: folder, stdin: 'file=out\n10\nmine.yaml\n' })
  t.equal(code, 0)
  t.match(readFileSync(join(folder, 'mine.yaml'), 'utf8'), 'on_backlog: pace')
  t.match(stdout, 'Of the newest 40 lines, the limit would have discarded 30 (75.0 %):')
  t.match(
    stdout,
    /found in the fields of the events:\s+without_a_time_0(, *\s+without_a_time_\d){7}\. If/,
    'a long list is not cut',
  )
  t.notMatch(stdout, 'access key', 'a file takes none')
})

t.test('logs of one name are all read, but no links out of the root folder', async t => {
  const time = new Date().toISOString()
  const json = (app: string) => `${JSON.stringify({ app, time })}\n`
  const folder = testFolder(t, {
    a: { 'app.log': json('\u001b[31mred') },
    b: { 'app.log': json('blue') },
    blank: { 'app.log': '\n\n' },
    timeless: { 'upstream.log': '{"app":"late"}\n' },
    root: { var: { log: { 'mine.log': json('mine'), 'x\n9  y.log': 'text\n' } } },
  })
  symlinkSync(join(folder, 'a/app.log'), join(folder, 'root/var/log/linked.log'))
  const paths = `${folder}/{a,b}/app.log,${folder}/timeless/*.log`
  const several = ['--read', `a/app.log, b/app.log,blank/app.log,timeless/upstream.log,${paths}`, '--send', 'none']
  const { code, stdout, stderr } = await command(['init', '--yes', ...several], { cwd: folder })
  t.match({ code, stderr }, { code: 0, stderr: '' })
  const written = readFileSync(join(folder, 'sluice.yaml'), 'utf8')
  for (const id of ['app', 'app_2', 'app_3', 'app_4', 'upstream_2', 'timeless']) t.match(written, `\n  ${id}:\n`)
  t.match(written, 'on_backlog: pace', 'events without a time cannot count at their own time')
  t.match(stdout, /(blue|red) +2 +2 /, 'one row for an app of two logs')
  t.match(stdout, '  app_3: no line')
  t.match(
    stdout,
    /Not counted, because no time was found in the fields of the events: upstream_2,\s+timeless\. If the lines have a time, a\s+/,
  )
  t.notMatch(stdout, '\u001b')

  const root = await command(['init', '--yes', '--root', 'root', '--send', 'none', '-o', 'r.yaml'], { cwd: folder })
  t.match(root, { code: 0, stdout: /mine: json/ })
  t.notMatch(root.stdout, 'linked')
  t.notMatch(root.stdout, /^9 {2}y/m)
})

t.test('a log that a source of another name has read is read on', async t => {
  const folder = testFolder(t, {
    'app.log': '{"app":"cart","n":1}\n',
    'example.yaml': `metrics: false
sources:
  system: { type: file, include: [app.log], decode: json }
destinations:
  out: { type: file, inputs: [system], path: out.ndjson }
`,
  })
  const example = sluice(['run', 'example.yaml'], { cwd: folder })
  await example.until(() => fileText(join(folder, 'out.ndjson')).includes('"n":1'))
  example.child.kill()
  t.equal(await example.exit, 0)
  // The state of root's configurations is that of the machine.
  const { geteuid } = process
  process.geteuid = () => 1000
  t.teardown(() => Object.assign(process, { geteuid }))
  const args = ['init', '--yes', '--read', join(folder, 'app.log'), '--send', 'none']
  t.match(await command(args, { cwd: folder }), { code: 0, stderr: '' })
  t.match(readFileSync(join(folder, 'sluice.yaml'), 'utf8'), /\n {2}app:\n(?: {4}.*\n)*? {4}renamed_from: system\n/)
})

t.test('of many logs that grow, the largest are proposed, and the number of the others is shown', async t => {
  const log: Record<string, string> = {}
  for (let i = 0; i < 30; i++) log[`many-${i}.log`] = `text ${'x'.repeat(i)}\n`
  const folder = testFolder(t, { root: { var: { log: { ...log, 'binary.db': `\0${'x'.repeat(100)}` } } } })
  const args = ['init', '--yes', '--root', 'root', '--send', 'none']
  const { stdout } = await command(args, { cwd: folder })
  t.match(stdout, /^ {2}1 {2}many_29: text, .*\n(?: {2}\d {2}many_2\d: .*\n){7}\n/m)
  t.match(stdout, '22 smaller files in /var/log: name those to read')
})

t.test('nothing is written if a file exists, an answer is wrong or missing, or the result would be wrong', async t => {
  const folder = testFolder(t, { 'sluice.yaml': 'mine\n', 'app.log': '{"app":"cart"}\n' })
  const log = join(folder, 'app.log')
  const wrong: [args: string[], code: number, stderr: RegExp, stdin?: string][] = [
    [['--yes'], 2, /sluice\.yaml exists; give the name of a new file with --output/],
    [['--yes', '--output', 'none/a.yaml'], 2, /there is no folder none/],
    [['--yes', '--output', 'a.yaml', '--read', '/none/*.log'], 2, /\/none\/\*\.log is not a log above/],
    [['--yes', '--output', 'a.yaml', '--read', log, '--send', 'loki'], 2, /must be one of loki=URL/],
    [['--yes', '--output', 'a.yaml', '--read', log, '--limit', '0'], 2, /--limit must be a whole number/],
    [
      ['--yes', '--output', 'a.yaml', '--read', log, '--send', 'http=nowhere'],
      1,
      /upstream\.url: .*\n.*removed a\.yaml/s,
    ],
    [['--yes', '--output', 'a.yaml', '--read', log, '--send', 'file=x', '--key-file', 'k'], 1, /removed a\.yaml/],
    [['--output', 'a.yaml'], 1, /nothing was written; --yes accepts the proposals/, `${log}\n`],
  ]
  for (const [args, code, stderr, stdin] of wrong) {
    t.match(await command(['init', ...args], { cwd: folder, stdin: stdin ?? '' }), { code, stderr }, args.join(' '))
    t.notOk(existsSync(join(folder, 'a.yaml')), args.join(' '))
  }
  t.equal(readFileSync(join(folder, 'sluice.yaml'), 'utf8'), 'mine\n')
  mkdirSync(join(folder, 'bare'))
  t.match(await command(['init', '--yes', '--root', 'bare', '--output', 'a.yaml'], { cwd: folder }), {
    code: 2,
    stdout: /none that this user can read/,
    stderr: /name a log, as in --read/,
  })
})
