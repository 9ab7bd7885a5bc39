import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startReceiver } from '../support/receiver.js'

const linesOf = (path: string) => readFileSync(path, 'utf8').split('\n').slice(0, -1)

t.test('destinations that share encodings get each line once and in order, whatever befalls the others', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  receiver.script.push(503, { reset: 'after_body' }, 503)
  const expected = Array.from({ length: 20_000 }, (_, n) => `${n} ${'x'.repeat(n % 90)}`)
  const folder = testFolder(t, { 'in.log': `${expected.join('\n')}\n` })
  const ordered = 'max_in_flight: 1, retry: { initial: 10ms, max: 20ms }'
  const daemon = await startDaemon(
    t,
    folder,
    `
sources: { log: { type: file, include: [in.log], follow: false } }
processors: { edit: { type: edit, inputs: [log], steps: [{ set: { .edited: "yes" } }] } }
destinations:
  a: { type: file, inputs: [log], path: a.ndjson, encoding: json }
  b: { type: file, inputs: [log], path: b.ndjson, encoding: json, fsync: true }
  buffered: { type: file, inputs: [log], path: buffered.ndjson, encoding: json, buffer: { type: disk, max_bytes: 200MB } }
  other: { type: file, inputs: [log], path: other.logfmt, encoding: logfmt }
  edited: { type: file, inputs: [edit], path: edited.ndjson, encoding: json }
  up: { type: http, inputs: [log], url: "${receiver.url('/up')}", encoding: json, ${ordered} }
  zip: { type: http, inputs: [log], url: "${receiver.url('/zip')}", encoding: json, compression: gzip, ${ordered} }
`,
  )
  await daemon.ended(t)
  const messagesOf = (lines: readonly string[]) => lines.map(line => (JSON.parse(line) as { message: string }).message)
  for (const name of ['a', 'b', 'buffered', 'edited'])
    t.strictSame(messagesOf(linesOf(join(folder, `${name}.ndjson`))), expected, name)
  t.ok(linesOf(join(folder, 'edited.ndjson')).every(line => line.includes('"edited":"yes"')))
  t.notOk(linesOf(join(folder, 'a.ndjson')).some(line => line.includes('"edited"')))
  const other = linesOf(join(folder, 'other.logfmt'))
  t.equal(other.length, expected.length)
  t.ok(other.every((line, n) => line.includes(`${n} `)))
  for (const path of ['/up', '/zip']) {
    const taken = receiver.requests.filter(request => request.path === path && request.status === 200)
    const lines = taken.flatMap(({ body }) => body.trimEnd().split('\n'))
    t.strictSame(messagesOf(lines), expected, path)
  }
})
