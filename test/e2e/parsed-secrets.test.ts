import t from 'tap'
import { testFolder } from '../support/folder.js'
import { sluice } from '../support/sluice.js'

t.test('what parse takes from a text is redacted, names too, and nothing of it is in the log', async t => {
  const dir = testFolder(t, {
    'sluice.yaml': `data_dir: ./state
metrics: false
sources: { lines: { type: stdin } }
processors:
  parsed: { type: parse, inputs: [lines], codec: logfmt, types: { pin: int } }
  clean: { type: redact, inputs: [parsed], presets: [email, card], names: true }
destinations: { out: { type: stdout, inputs: [clean] } }
`,
  })
  const running = sluice(['run', '--config', 'sluice.yaml'], { cwd: dir })
  running.child.stdin!.end('a@example.com=1 pin=7\nuser=jane pin=hunter2\nuser=jane pin=4111111111111111x\n')
  t.equal(await running.exit, 0, running.stderr)
  const events = running.stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, unknown>)
  t.match(events[0], { message: '***=1 pin=7', '***': '1', pin: 7 })
  t.match(events[1]!.processing_error, {
    component: 'parsed',
    message: '.message is not logfmt (.pin should be an integer, and is a text of 7 characters)',
  })
  t.equal(events.length, 3)
  t.notMatch(running.stdout, /example\.com|4111111111111111/)
  t.match(running.stderr, /"component":"parsed".*\.pin should be an integer/)
  t.notMatch(running.stderr, /hunter2|4111111111111111|example\.com/)
})
