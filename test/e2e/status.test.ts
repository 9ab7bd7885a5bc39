import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../support/cli.js'
import { receiver } from '../support/destination.js'
import { sluice } from '../support/sluice.js'

/** A daemon in a folder of its own, and the commands that inspect it. */
async function started(t: Test, config: string, files: Readonly<Record<string, string>>) {
  // The path of a socket has to be short.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const write = (text: string) =>
    writeFileSync(join(folder, 'sluice.yaml'), `data_dir: ./state\nmetrics: false\n${text}`)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  write(config)
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  t.teardown(() => daemon.child.kill('SIGKILL'))
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  const said = (text: string) => daemon.until(() => daemon.stderr.includes(text))
  return {
    write,
    daemon,
    said,
    run: (...args: string[]) => command([...args, '--config', 'sluice.yaml'], { cwd: folder }),
  }
}

const refusing = `
sources: { app: { type: file, include: [./app.log] } }
processors: { fields: { type: parse, inputs: [app], codec: json, field: .message, on_error: dead_letter } }
`

t.test('status after a reload lists what runs, and says who could not take dead letters', async t => {
  const refuses = await receiver(t)
  refuses.otherwise = 400
  const out = `out: { type: http, inputs: [fields], url: '${refuses.url()}' }`
  const before = `
sources: { app: { type: file, include: [./app.log] }, spare: { type: file, include: [./app.log] } }
processors:
  fields: { type: parse, inputs: [app], codec: json, field: .message, on_error: dead_letter }
  lim: { type: throttle, inputs: [spare], limit: 1, window: 1h }
destinations: { ${out}, rest: { type: blackhole, inputs: [lim] } }
`
  const { write, daemon, said, run } = await started(t, before, { 'app.log': 'not JSON\n{"n":1}\n' })
  await said('the destination rejected events')
  t.match((await run('status')).stdout, /^lim \(throttle\)/m)
  write(`${refusing}destinations: { ${out} }`)
  daemon.child.kill('SIGHUP')
  await said('configuration reloaded')
  const { stdout } = await run('status')
  t.match(stdout, /! out: 1 event in the dead-letter queue[^!]+The destination rejected them\./)
  t.match(stdout, /! fields: 1 event in the dead-letter queue[^!]+They could not be processed\./)
  t.match(stdout, /^app \(file\) .*\nfields \(parse\) .*\nout \(http\)/m)
  const { stdout: top } = await run('top', '--count', '1', '--interval', '100ms')
  t.match(top, /^fields: processing_failed /m)
  t.notMatch(`${stdout}${top}`, /^(spare|lim|rest)\b/m, 'not what a reload has removed')
})
