import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { parsedLines } from '../support/parsed-lines.js'
import { sluice } from '../support/sluice.js'

type Test = Parameters<typeof testFolder>[0]

const RULES = `- { key: 'batch-*', limit: 1, window: 1 Hours }
- { when: "if (.level equal 'error')", limit: unlimited }
`

function config(dir: string, more = ''): string {
  return `data_dir: ${JSON.stringify(join(dir, 'state'))}
metrics: false
sources:
  lines: { type: stdin, decode: json }
processors:
  limit_app:
    type: throttle
    inputs: [lines]
    limit: 2
    window: 1 Hours
    key_field: .app
${more}destinations:
  out: { type: stdout, inputs: [limit_app], encoding: raw }
`
}

const FILE = '    limits_file: limits.yaml\n'
const LIMITS = `    limits:\n      - { key: checkout, limit: 3 }\n`

const lines = (...apps: [app: string, level?: string][]) =>
  apps.map(([app, level = 'info']) => `{"app":"${app}","level":"${level}","timestamp":1700000000000}\n`).join('')

async function run(t: Test, args: string[], more: string, rules: string | undefined, input = '') {
  const dir = testFolder(t)
  writeFileSync(join(dir, 'sluice.yaml'), config(dir, more))
  if (rules !== undefined) writeFileSync(join(dir, 'limits.yaml'), rules)
  if (args[0] !== 'run') return command(args, { cwd: dir, stdin: input })
  const ran = sluice(args, { cwd: dir })
  ran.child.stdin!.end(input)
  const code = await ran.exit
  return { code, stdout: ran.stdout, stderr: ran.stderr }
}

const INPUT = lines(
  ...(['batch-1', 'batch-1', 'batch-2', 'checkout', 'checkout', 'checkout', 'checkout'].map(app => [app]) as [
    string,
  ][]),
  ...Array.from({ length: 4 }, (): [string, string] => ['web', 'error']),
  ...Array.from({ length: 3 }, (): [string] => ['web']),
)
/** Of these, in order: one of each batch, three of checkout, all errors, two others. */
const PASSED = [0, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]

t.test('a daemon with rules of its own and in a file', async t => {
  const { code, stdout, stderr } = await run(t, ['run', '--config', 'sluice.yaml'], LIMITS + FILE, RULES, INPUT)
  t.equal(code, 0, stderr)
  const all = INPUT.trimEnd().split('\n')
  t.same(
    stdout.trimEnd().split('\n'),
    PASSED.map(n => all[n]),
  )
})

t.test('simulate decides as the daemon, with the rules of the file', async t => {
  const { code, stdout, stderr } = await run(
    t,
    ['simulate', '--config', 'sluice.yaml', '--component', 'limit_app', '--time', '.timestamp', '--decisions'],
    LIMITS + FILE,
    RULES,
    INPUT,
  )
  t.equal(code, 0, stderr)
  const decisions = parsedLines(stdout)
  t.same(
    decisions.flatMap(({ n, decision }) => (decision === 'pass' ? [n] : [])),
    PASSED,
  )
})

t.test('explain names the rule that holds', async t => {
  const explained = async (event: string) => {
    const { stdout, stderr } = await run(t, ['explain', '--config', 'sluice.yaml', event], LIMITS + FILE, RULES)
    return stdout + stderr
  }
  t.match(await explained('{"app":"checkout"}'), /limits: limits\[0\] is the first rule that holds \(key checkout\)/)
  t.match(
    await explained('{"app":"batch-7"}'),
    /limits: limits_file\[0\] is the first rule that holds \(key batch-\*\)/,
  )
  t.match(await explained('{"app":"x","level":"error"}'), /limit: unlimited, it passes/)
  t.match(await explained('{"app":"x"}'), /limits: no rule holds for it/)
})

t.test('validate checks the file, and the start does', async t => {
  const wrong = `${RULES}- key: 'x*'\n  limt: 5\n`
  const validate = (rules: string | undefined, more = FILE) => run(t, ['validate', 'sluice.yaml'], more, rules)
  t.match(await validate(RULES), { code: 0, stdout: /0 errors, 0 warnings/ })
  t.match(await validate(wrong), {
    code: 78,
    stderr: /^limits\.yaml:4:1: \[2\]\.limt: unknown option; did you mean "limit"\?$/m,
  })
  t.match(await validate(undefined), {
    code: 0,
    stderr: /^sluice\.yaml:\d+:\d+: processors\.limit_app\.limits_file: warning: limits\.yaml \(\/.*\) cannot be read/m,
  })
  t.match(await validate(RULES, '    limits: [{ key: "a[" }]\n'), {
    code: 78,
    stderr: /^sluice\.yaml:\d+:\d+: processors\.limit_app\.limits\[0\]\.key: has a \[ without/m,
  })
  t.match(await run(t, ['run', '--config', 'sluice.yaml'], FILE, wrong), {
    code: 78,
    stderr: /limits\.yaml:4:1: \[2\]\.limt: unknown option/,
  })
})

const USELESS = `- { key: 'batch-*', limit: 1 }
- { key: checkout, limit: 5 }
- { key: 'batch-*', limit: 2 }
`
const WHY = 'comes before it and holds for all of its events'
const WARNINGS: readonly (readonly [place: string, message: string])[] = [
  ['limits.yaml:2:1: [1]', `never holds: limits[0] of the throttle ${WHY}; remove one of the two`],
  ['limits.yaml:3:1: [2]', `never holds: [0] in line 1 ${WHY}; change their order, or remove one of the two`],
]

t.test('validate warns of rules in the file that never hold', async t => {
  const { code, stdout, stderr } = await run(t, ['validate', 'sluice.yaml'], LIMITS + FILE, USELESS)
  t.equal(code, 0)
  t.equal(stderr, WARNINGS.map(([place, message]) => `${place}: warning: ${message}\n`).join(''))
  t.match(stdout, /0 errors, 2 warnings/)
})

t.test('a daemon warns of rules in the file that never hold, also when the file is read again', async t => {
  const dir = testFolder(t)
  writeFileSync(join(dir, 'sluice.yaml'), config(dir, LIMITS + FILE))
  const file = join(dir, 'limits.yaml')
  writeFileSync(file, USELESS)
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: dir })
  const warned = () => daemon.stderr.split('\n').flatMap(line => /"place":"(.*?)"/.exec(line)?.[1] ?? [])
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  t.same(
    warned(),
    WARNINGS.map(([place, message]) => `${place}: ${message}`),
  )
  // In place it could be read while it is empty.
  writeFileSync(`${file}.new`, `# changed\n${USELESS}`)
  renameSync(`${file}.new`, file)
  await daemon.until(() => warned().length === 4)
  t.match(warned()[3], /^limits\.yaml:4:1: \[2\]: never holds: \[0\] in line 2 /)
  daemon.child.stdin!.end()
  t.equal(await daemon.exit, 0)
})
