import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { built, checkout } from '../support/checkout.js'
import { docBlocks, fileName } from '../support/doc-blocks.js'
import { startReceiver } from '../support/receiver.js'
import { sluice } from '../support/sluice.js'

/** A daemon without its wings: the page, the simulation and the service. */

const WINGS = ['page', 'simulate', 'service']
const VECTORS = 'unit/components/throttle/vectors.test.js'

const copy = mkdtempSync(join(tmpdir(), 'sluice-wings-'))
t.teardown(() => rmSync(copy, { recursive: true, force: true }))
cpSync(join(built, 'src'), join(copy, 'dist/src'), { recursive: true })
for (const path of ['support', VECTORS])
  cpSync(join(built, 'test', path), join(copy, 'dist/test', path), { recursive: true })
for (const path of ['package.json', 'test/vectors']) cpSync(join(checkout, path), join(copy, path), { recursive: true })
symlinkSync(join(checkout, 'node_modules'), join(copy, 'node_modules'))
for (const wing of WINGS) rmSync(join(copy, 'dist/src', wing), { recursive: true })
const main = join(copy, 'dist/src/cli/main.js')

t.test('without the wings, the configuration of the README delivers over HTTP', async t => {
  const receiver = await startReceiver({ authorization: 'Bearer secret' })
  t.teardown(() => receiver.close())
  const config = docBlocks('README.md').find(block => fileName(block) === 'sluice.yaml')!
  const [logs, state, key] = [join(copy, 'logs'), join(copy, 'state'), join(copy, 'key')]
  mkdirSync(logs)
  writeFileSync(key, 'secret\n', { mode: 0o600 })
  const lines = Array.from({ length: 300 }, (_, n) =>
    JSON.stringify({ app: 'cart', level: n < 50 ? 'error' : 'info', n }),
  )
  writeFileSync(join(logs, 'a.log'), lines.map(line => `${line}\n`).join(''))
  const text = config.text
    .replaceAll('/var/log/app', logs)
    .replaceAll('/var/lib/sluice', state)
    .replace('/etc/sluice/access-key', key)
    .replace('https://logs.example.com/ingest', receiver.url())
    .replace('127.0.0.1:9598', '127.0.0.1:0')
  writeFileSync(join(copy, 'sluice.yaml'), text)
  const checked = sluice(['validate', 'sluice.yaml'], { cwd: copy, main })
  t.equal(await checked.exit, 0, checked.stderr)
  const daemon = sluice(['run', 'sluice.yaml'], { cwd: copy, main })
  const discarded = join(state, 'discarded.ndjson')
  const linesIn = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0)
  const delivered = () => receiver.requests.flatMap(({ body }) => body.split('\n').filter(Boolean)).length
  await daemon.until(() => delivered() + linesIn(discarded) >= lines.length)
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0, daemon.stderr)
  t.ok(delivered() >= 150, `${delivered()} of 300: all errors, and the limit`)
  t.equal(delivered() + linesIn(discarded), lines.length)
})

t.test('without the wings, the throttle decides as its vectors say', async t => {
  const output = execFileSync(process.execPath, [join('dist/test', VECTORS)], { cwd: copy, encoding: 'utf8' })
  t.match(output, /^# \{ total: \d+, pass: \d+ \}|^# time=/m)
  t.notMatch(output, /^not ok/m)
  t.ok((output.match(/^ *ok \d+/gm) ?? []).length > 20)
})

t.test('a command of a wing that is not there says so', async t => {
  const missing = sluice(['simulate', '--limit', '1', '--window', '1s'], { cwd: copy, main })
  t.not(await missing.exit, 0)
  t.match(missing.stderr, /Cannot find module .*simulate\/wing\.js/)
})
