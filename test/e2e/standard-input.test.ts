import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { sluiceMain } from '../support/checkout.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'

const LINES = Array.from({ length: 30_000 }, (_, n) => `${n} ${'é'.repeat(n % 50)}${n % 1000 === 7 ? '\r' : ''}`)
LINES[3000] = 'x'.repeat(700_000)
const TEXT = `${LINES.join('\n')}\nunfinished`

const CONFIG = `data_dir: ./state
metrics: { listen: 127.0.0.1:0 }
sources: { in: { type: stdin } }
destinations: { out: { type: file, inputs: [in], path: out.log, encoding: raw } }
`

for (const [what, command, output] of [
  ['a file', '"$@" <in.log', TEXT],
  ['a file that somebody else has begun to read', '{ read -r first; "$@"; } <in.log', undefined],
  ['a pipe', 'cat in.log | "$@"', TEXT],
  ['a pipe with pauses', '{ head -c 100000 in.log; sleep 0.1; tail -c +100001 in.log; } | "$@"', TEXT],
  ['empty', '"$@" </dev/null', ''],
  ['closed', '"$@" <&-', ''],
] as const) {
  t.test(`standard input that is ${what}`, async t => {
    const folder = testFolder(t, { 'in.log': TEXT, 'sluice.yaml': CONFIG })
    const args = ['-c', command, 'sh', process.execPath, sluiceMain, 'run', '--config', 'sluice.yaml']
    const { status, stderr } = spawnSync('sh', args, { cwd: folder, encoding: 'utf8' })
    t.equal(status, 0, stderr)
    const written = output === '' ? '' : readFileSync(join(folder, 'out.log'), 'utf8')
    // How much the shell has read is not ours to know.
    if (output === undefined) t.ok(written.length < TEXT.length && TEXT.endsWith(written))
    else t.ok(written === output, `${written.length} of ${output.length} characters`)
  })
}

t.test(
  'standard input passes from one source to the next when it is reloaded, and nothing is lost or comes twice',
  async t => {
    const folder = testFolder(t)
    const config = (timeout: string) => `
sources: { in: { type: stdin, partial_line_timeout: ${timeout} } }
destinations: { out: { type: file, inputs: [in], path: out.log } }
`
    const daemon = await startDaemon(t, folder, config('60s'))
    const { stdin } = daemon.child
    let written = 0
    const write = () => {
      for (let n = 0; n < 500; n++) stdin!.write(`${written++} ${'x'.repeat(100)}\n`)
    }
    for (let reloads = 1; reloads <= 3; reloads++) {
      write()
      writeFileSync(daemon.configPath, readFileSync(daemon.configPath, 'utf8').replace(/\d+s \}/, `${60 + reloads}s }`))
      daemon.child.kill('SIGHUP')
      write()
      await daemon.until(() => daemon.logs().filter(({ msg }) => msg === 'configuration reloaded').length === reloads)
    }
    write()
    stdin!.end()
    t.match(await daemon.ended(t), { received: written, undelivered: 0 })
    const numbers = readFileSync(join(folder, 'out.log'), 'utf8')
      .trimEnd()
      .split('\n')
      .map(line => Number(line.split(' ')[0]))
    t.same(
      numbers,
      Array.from({ length: written }, (_, n) => n),
    )
  },
)
