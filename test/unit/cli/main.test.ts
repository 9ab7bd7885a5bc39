import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import t from 'tap'
import { commands } from '../../../src/cli/commands.js'
import { ConfigError } from '../../../src/core/errors.js'
import { type Command, command } from '../../../src/daemon/process/command-line.js'
import { dispatch } from '../../../src/daemon/process/dispatch.js'
import { commandsOf, GROUPS } from '../../../src/daemon/process/groups.js'
import { createLog } from '../../../src/daemon/process/log.js'
import { nodeProblem } from '../../../src/lib/version.js'
import { casesOf } from '../../support/cases.js'
import { sluiceMain } from '../../support/checkout.js'
import { commandIo } from '../../support/command-io.js'
import { testFolder } from '../../support/folder.js'

/** Runs `argv` against a table, with streams that remember. */
async function call(argv: readonly string[], table: readonly Command[] = commands, env: NodeJS.ProcessEnv = {}) {
  const { io, text } = commandIo(env, process.stdin)
  const code = await dispatch(argv, table, io)
  return { code, ...text }
}

let seen: unknown
const config = { short: 'c', value: 'FILE', operand: true, text: 'The configuration.' } as const
const remember = async (call: unknown) => {
  seen = call
  return 0
}
const table = [
  command({ name: 'plain', summary: 'S.', options: { config }, examples: [], run: remember }),
  command({
    name: 'needs',
    summary: 'S.',
    options: { config: { ...config, required: true } },
    operands: { name: 'EVENT', min: 0, max: 1, text: 'An event.' },
    examples: [],
    run: remember,
  }),
  command({
    name: 'of',
    summary: 'S.',
    options: { config },
    operands: { name: 'COMPONENT', min: 1, max: 1, text: 'Its id.' },
    examples: [],
    run: remember,
  }),
  command({
    name: 'take',
    summary: 'Takes.',
    options: {
      file: { short: 'f', value: 'FILE', required: true, text: 'A file.' },
      size: { value: 'N', text: 'A size.' },
      loud: { text: 'Loudly.' },
    },
    operands: { name: 'INPUT', min: 0, max: 2, text: 'Inputs.' },
    examples: [{ title: 'an example', line: 'sluice take --file x' }],
    async run(call) {
      seen = call
      return 0
    },
  }),
  command({
    name: 'two words',
    summary: 'Fails.',
    options: {},
    operands: { name: 'HOW', min: 1, max: 1, text: 'How.' },
    examples: [],
    async run({ operands }) {
      const problem = { file: 'a.yaml', line: 2, column: 3, path: 'x.y', message: 'is wrong' }
      if (operands[0] === 'config') throw new ConfigError([problem, { ...problem, line: 4 }])
      if (operands[0] === 'system') {
        throw Object.assign(new Error("ENOENT: no such file or directory, open '/no/where'"), { code: 'ENOENT' })
      }
      throw new Error('it\n  broke', { cause: new Error('the reason') })
    },
  }),
]

t.test('options and operands reach the command, absent ones too', async t => {
  const cases: [string[], unknown][] = [
    [['take', '--file', 'x'], { options: { file: 'x', size: undefined, loud: false }, operands: [] }],
    [
      ['take', 'a', '-f', 'x', '--loud', 'b'],
      { options: { file: 'x', size: undefined, loud: true }, operands: ['a', 'b'] },
    ],
    [['take', '--file=-x', '--size=5', '-'], { options: { file: '-x', size: '5', loud: false }, operands: ['-'] }],
    [
      ['take', '--file', '-', '--', '--loud'],
      { options: { file: '-', size: undefined, loud: false }, operands: ['--loud'] },
    ],
    [
      ['take', '-f', 'x', '--', '--help'],
      { options: { file: 'x', size: undefined, loud: false }, operands: ['--help'] },
    ],
  ]
  for (const [argv, expected] of cases) {
    const { code, stderr } = await call(argv, table)
    t.equal(code, 0, argv.join(' '))
    t.equal(stderr, '')
    t.strictSame(seen, expected)
  }
})

t.test('a configuration is taken as an option and as the first operand', async t => {
  const cases: [string[], string | undefined, string[]][] = [
    [['plain', 'x.yaml'], 'x.yaml', []],
    [['plain', '-c', 'x.yaml'], 'x.yaml', []],
    [['plain'], undefined, []],
    [['needs', 'x.yaml'], 'x.yaml', []],
    [['needs', 'x.yaml', '{}'], 'x.yaml', ['{}']],
    [['needs', '{}', '--config', 'x.yaml'], 'x.yaml', ['{}']],
    [['of', 'app'], undefined, ['app']],
    [['of', 'x.yaml', 'app'], 'x.yaml', ['app']],
  ]
  for (const [argv, config, operands] of cases) {
    t.equal((await call(argv, table)).code, 0, argv.join(' '))
    t.strictSame(seen, { options: { config }, operands })
  }
  t.match(await call(['needs'], table), { code: 2, stderr: /FILE is missing: The configuration\./ })
  t.match(await call(['plain', 'a', 'b'], table), { code: 2, stderr: /unexpected "b"/ })
  for (const [argv, missing] of [
    [['new'], 'KIND'],
    [['new', 'processor'], 'NAME'],
    [['api', 'GET'], 'PATH'],
  ] as const)
    t.match(await call(argv), { code: 2, stderr: new RegExp(`^sluice: ${missing} is missing$`, 'm') })
  // simulate decides itself whether its first operand is a configuration, and that of docs is a page.
  const without = commands.filter(({ name }) => !['api publish', 'simulate', 'docs config'].includes(name))
  for (const { name, options, operands } of without) {
    const option = options.config
    if (option) t.match(option, { short: 'c', operand: true }, `${name} takes both`)
    t.not(operands?.name === 'FILE' && !option, true, `${name} takes both`)
  }
})

t.test('tap takes a condition without if, and with the signs of other languages', async t => {
  // The path of a socket must be short.
  const folder = mkdtempSync(join(tmpdir(), 'tap-'))
  const socket = join(folder, 's.sock')
  const asked: (string | null)[] = []
  const server = createServer((request, response) => {
    asked.push(new URL(request.url ?? '', 'http://x').searchParams.get('where'))
    response.end('{"app":"cart"}\n')
  })
  await new Promise<void>(resolve => server.listen(socket, resolve))
  t.teardown(() => {
    server.close()
    rmSync(folder, { recursive: true })
  })
  const tap = (where: string) => call(['tap', 'lim', '--socket', socket, '--where', where])
  const signs = ".app == 'cart' && .n > 5"
  t.match(await tap(signs), { code: 0, stdout: /cart/, stderr: '' })
  t.match(await tap('.app whatever'), { code: 2, stderr: /sluice: --where: unknown operator "whatever"/ })
  t.same(asked, [signs])
})

t.test('tap says that the daemon ended', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'tap-'))
  const socket = join(folder, 's.sock')
  const server = createServer((_, response) => response.write('{"app":"cart"}\n', () => response.destroy()))
  await new Promise<void>(resolve => server.listen(socket, resolve))
  t.teardown(() => {
    server.close()
    rmSync(folder, { recursive: true })
  })
  t.match(await call(['tap', 'lim', '--socket', socket]), { code: 1, stdout: /cart/, stderr: /the daemon has ended/ })
})

t.test('an interval without a unit', async t => {
  const [, advised = ''] =
    /write (--interval \w+)/.exec((await call(['graph', 'none.yaml', '--interval', '5'])).stderr) ?? []
  t.equal(advised, '--interval 5s')
  t.match(await call(['graph', 'none.yaml', '--live', ...advised.split(' ')]), {
    stderr: /none\.yaml:1:1: the file or folder does not exist/,
  })
})

t.test('what resend --dry-run tells, without more', async t => {
  const dir = testFolder(t, {
    'one.yaml':
      'data_dir: DIR\nsources: { in: { type: stdin } }\ndestinations:\n  a: { type: stdout, inputs: [in] }\n  b: { type: blackhole, inputs: [in] }\n',
  })
  const file = `${dir}/one.yaml`
  writeFileSync(file, readFileSync(file, 'utf8').replace('DIR', dir))
  t.match(await call(['resend', '--dry-run', file]), { code: 0, stdout: 'a: nothing to send\nb: nothing to send\n' })
  t.match(await call(['resend', '-c', file]), { code: 0, stdout: /^nothing to send: there are no rejected events/ })
  t.match(await call(['resend', '-c', file, '--destination', 'a']), { code: 0 }, 'as it says')
})

t.test('the help of a word that several commands begin with lists them', async t => {
  for (const argv of [
    ['two', '--help'],
    ['two', '-h'],
    ['help', 'two'],
  ])
    t.match(
      await call(argv, table),
      { code: 0, stdout: /^Commands of sluice two:\n {2}two words +Fails\./ },
      argv.join(' '),
    )
  const { stdout } = await call(['api', '--help'])
  t.match(stdout, /^Calls the service/)
  t.match(stdout, /^ {2}api pipelines /m, 'those of a command that is one itself, too')
})

t.test('a wrong command line is told with what was probably meant, exit code 2', async t => {
  const cases: [string[], string, string][] = casesOf(import.meta.url, 'wrong')
  for (const [argv, message, help] of cases) {
    t.same(
      await call(argv, table),
      { code: 2, stdout: '', stderr: `sluice: ${message}\nTry: sluice ${help}\n` },
      argv.join(' '),
    )
  }
  for (const number of ['0', '1.5', '0x2', '1e3', 'many'])
    for (const [argv, option] of [
      [['top', '--count', number], '--count'],
      [['tap', 'in', '--limit', number], '--limit'],
      [['throttle', '--window', '1s', '--limit', number], '--limit'],
      [['simulate', '--window', '1s', '--limit', number], '--limit'],
    ] as const) {
      const must = 'must be a whole number of at least 1 in digits, as in 100'
      const stderr = `sluice: ${option} ${must}, not "${number}"\nTry: sluice ${argv[0]} --help\n`
      t.same(await call([...argv]), { code: 2, stdout: '', stderr })
    }
})

t.test('a file beside a command that reads standard input: the line that reads it', async t => {
  const folder = testFolder(t, { "it's.log": '{"app":"a"}\n{"app":"b"}\n{"app":"a"}\n', 'b.log': '{"app":"b"}\n' })
  const typed = (line: string) =>
    spawnSync('bash', ['-c', `sluice() { "${process.execPath}" "${sluiceMain}" "$@"; }; ${line}`], {
      cwd: folder,
      encoding: 'utf8',
    })
  for (const [files, out] of [
    [`"it's.log"`, '{"app":"a"}\n{"app":"b"}\n'],
    [`b.log "it's.log"`, '{"app":"b"}\n{"app":"a"}\n'],
  ] as const) {
    const { status, stdout, stderr } = typed(`sluice throttle ${files} --limit 1 --window '1 hours' --key=.app --quiet`)
    t.same({ status, stdout }, { status: 2, stdout: '' })
    const [, advised = ''] = /^sluice: unexpected ".*; it reads standard input: (.*)$/m.exec(stderr) ?? []
    t.match(typed(advised), { status: 0, stdout: out, stderr: '' }, advised)
  }
  for (const [argv, advised] of [
    [
      ['throttle', '--limit', '1', '--window', '1s', '-'],
      'it reads standard input: sluice throttle --limit 1 --window 1s',
    ],
    [['run', 'a.yaml', 'b.log'], 'if a source has the type stdin, it reads standard input: sluice run a.yaml < b.log'],
    [['run', 'a.yaml', 'b.yaml'], 'a configuration of several files is a folder'],
    [['api', 'POST', '/v3/ingest/x', '{}'], "give the body with --data: sluice api POST /v3/ingest/x --data '{}'"],
    [['api', 'POST', '/v3/ingest/x', join(folder, 'b.log')], `--data @${join(folder, 'b.log')}`],
    [['api', 'set-secret', 'up', 'the-value'], 'from a file: sluice api set-secret up --file FILE'],
  ] as const) {
    const { code, stderr } = await call([...argv])
    t.equal(code, 2)
    t.ok(stderr.split('\n')[0]!.endsWith(advised), stderr)
  }
})

t.test('failures: exit code and what a person reads', async t => {
  t.same(await call(['two', 'words', 'config'], table), {
    code: 78,
    stdout: '',
    stderr: 'a.yaml:2:3: x.y: is wrong\na.yaml:4:3: x.y: is wrong\n',
  })
  t.same(await call(['two', 'words', 'system'], table), {
    code: 1,
    stdout: '',
    stderr: 'sluice: cannot open /no/where: no such file or directory (ENOENT)\n',
  })
  t.same(await call(['two', 'words', 'any'], table), { code: 1, stdout: '', stderr: 'sluice: it; broke\n' })
  const debug = await call(['two', 'words', 'any'], table, { SLUICE_DEBUG: '1' })
  t.match(debug.stderr, /^sluice: it; broke\nError: it\n.*\n +at .*\n(.*\n)*caused by Error: the reason\n +at /)
})

t.test('the help of a group has its commands', async t => {
  for (const group of GROUPS.filter(({ name }) => !commands.some(command => command.name === name))) {
    const { code, stdout } = await call(['help', group.name])
    t.equal(code, 0)
    const texts = stdout.replace(/\s+/g, ' ')
    for (const { name, summary } of commandsOf(group, commands)) t.ok(texts.includes(` ${name} ${summary}`), name)
    t.equal((await call([group.name, '--help'])).stdout, stdout)
    t.match(await call([group.name]), { code: 2, stderr: new RegExp(`^sluice: ${group.name} is a group: sluice `) })
  }
  t.match((await call(['help', 'more'])).stdout, /^Exit codes:[\s\S]*^ {2}78 +The [\s\S]*^ {2}SLUICE_LOG_LEVEL /m)
  t.match((await call(['help', 'throttle'])).stdout, /\nSee also: sluice help simulate\n$/)
})

t.test('options that most people need come first', async t => {
  const { stdout } = await call(['simulate', '--help'])
  const [first = '', more = ''] = stdout.split('\nMore options:\n')
  const flags = (text: string) => [...text.matchAll(/^ {2}(?:-\w, )?--([\w-]+)/gm)].map(([, name]) => name)
  t.same(flags(first), ['config', 'component', 'time', 'limit', 'window', 'key', 'suggest', 'report'])
  t.ok(flags(more).includes('budget') && flags(more).includes('help'))
  t.match(stdout, /\[OPTION…\]\s+\[INPUT…\]/)
  t.notMatch((await call(['throttle', '--help'])).stdout, 'More options', 'these eight are all')
})

t.test('help is made from the table', async t => {
  const help = await call(['--help'])
  t.match(help, { code: 0, stderr: '' })
  t.equal((await call([])).stderr, help.stdout, 'without a command the help goes to stderr')
  t.equal((await call([])).code, 2)
  t.equal((await call(['help'])).stdout, help.stdout)
  const lines = help.stdout.trimEnd().split('\n')
  t.ok(lines.length <= 24 && lines.every(line => line.length <= 80), 'fits a terminal of 24 lines of 80 columns')
  for (const command of commands) {
    const first = command.name.split(' ')[0]!
    t.match(help.stdout, new RegExp(`^(\\w* +|.*, )${first}[, :]`, 'm'), `${command.name} is in the help`)
    const groups = GROUPS.filter(group => commandsOf(group, commands).includes(command))
    t.equal(groups.length, 1, `${command.name} is in one group`)
    const words = command.name.split(' ')
    const own = await call([...words, '--help'])
    t.match(own, { code: 0, stderr: '' })
    t.same(await call([...words, '--no-such', '-h']), own, 'help is never refused')
    t.same(await call(['help', ...words]), own)
    t.ok(own.stdout.includes(`Usage: sluice ${command.name}`))
    t.ok(
      own.stdout.split('\n').every(line => line.length <= 80 || /^ {2}\S*sluice|=/.test(line)),
      'fits 80 columns',
    )
    for (const [name, spec] of Object.entries(command.options)) {
      t.ok(own.stdout.includes(`--${name}`), `${command.name} --${name} is explained`)
      t.match(spec.text, /^[A-Z].*\.$/)
    }
    t.ok(command.examples.length > 0)
    for (const { line } of command.examples) t.ok(line.includes(`sluice ${command.name}`) && own.stdout.includes(line))
  }
})

t.test('the program itself', async t => {
  const run = (args: string[], input = '') => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [sluiceMain, ...args], {
      input,
      encoding: 'utf8',
      timeout: 20_000,
    })
    return { status, stdout, stderr }
  }
  t.match(run(['--version']), { status: 0, stdout: /^sluice \d+\.\d+\.\d+\n$/, stderr: '' })
  t.match(run(['runn']), { status: 2, stdout: '', stderr: /did you mean run\?/ })
  t.match(run(['--verson']), { status: 2, stdout: '', stderr: /unknown option --verson; did you mean --version\?/ })
  t.match(run(['stop']), { status: 2, stdout: '', stderr: /unknown command stop; systemctl stop sluice stops the/ })
  const shell = `"${process.execPath}" "${sluiceMain}" --help | true; echo "\${PIPESTATUS[0]}"`
  for (let i = 0; i < 3; i++) {
    const { stdout, stderr } = spawnSync('bash', ['-c', shell], { encoding: 'utf8', timeout: 20_000 })
    t.same({ stdout, stderr }, { stdout: '0\n', stderr: '' }, 'a reader that left early is no error')
  }
})

t.test('an old Node.js is told', async t => {
  for (const version of ['20.19.0', '20.19.1', '21.0.0', '26.1.0']) t.equal(nodeProblem(version), undefined, version)
  for (const version of ['18.20.8', '20.18.9', '8.0.0'])
    t.equal(nodeProblem(version), `Node.js 20.19 or newer is needed, and ${process.execPath} is ${version}`)
})

t.test('the log never shows a key, and shows the counts of a component that is called so', async t => {
  let text = ''
  const stderr = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      done()
    },
  })
  const log = createLog({ stderr: stderr as unknown as NodeJS.WriteStream, env: {} })
  log.info({ delivered: { key: 5, up: 2 }, discarded: { auth: { throttled: 3 } } }, 'ended')
  log.info({ key: 'sts_1', a: { key: 'sts_2', auth: { key: 'sts_3' }, authorization: ['sts_4'] } }, 'never')
  const [counts, secrets] = text.trim().split('\n')
  t.match(JSON.parse(counts!), { delivered: { key: 5, up: 2 }, discarded: { auth: { throttled: 3 } } })
  t.notMatch(secrets, /sts_/)
})

t.test('tap without a component says what there is', async t => {
  const dir = testFolder(t, {
    'sluice.yaml': 'sources: { in: { type: stdin } }\ndestinations: { out: { type: stdout, inputs: [in] } }\n',
  })
  const file = join(dir, 'sluice.yaml')
  for (const argv of [[file], ['-c', file], ['--limit', '5', file]]) {
    const { code, stderr } = await call(['tap', ...argv])
    t.equal(code, 2)
    t.match(
      stderr,
      /COMPONENT is missing; it is one of these:\n {2}in {3}source \(stdin\)\n {2}out {2}destination \(stdout\)\n/,
    )
  }
  const { code, stderr } = await call(['tap', '-c', file, 'in'])
  t.same([code, /there is no daemon at/.test(stderr)], [1, true], 'with a component the daemon is asked')
})

t.test('the level of the log', async t => {
  const levelOf = (level: string) => createLog(commandIo({ SLUICE_LOG_LEVEL: level }, process.stdin).io).level
  t.same(['debug', 'WARN', ''].map(levelOf), ['debug', 'warn', 'info'])
  t.throws(() => levelOf('verbose'), { message: /SLUICE_LOG_LEVEL must be one of trace, debug, info, / })
})
