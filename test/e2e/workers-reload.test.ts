import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { eventually } from '../support/patience.js'

/** `message Old`, whose field 5 is `text`. */
const DESCRIPTOR = Buffer.from(
  'CqsBCgl0d28ucHJvdG8SBGFjbWUilwEKA09sZBIOCgJpZBgBIAIoBVICaWQSEgoEbGlzdBgCIAMoBVIEbGlzdBIaCgZwYWNrZWQYAyADKAVCAhABUgZwYWNrZWQSIgoEcGFydBgEIAEoCjIOLmFjbWUuT2xkLlBhcnRSBHBhcnQSFgoEdGV4dBgFIAEoCToCaGlSBHRleHQaFAoEUGFydBIMCgF4GAEgASgFUgF4',
  'base64',
)
/** The same, with another name for it. */
const RENAMED = Buffer.from(DESCRIPTOR.toString('latin1').replaceAll('text', 'note'), 'latin1')
const RECORD = Buffer.from('0508012a0161', 'hex')

t.test('a reload takes up a changed descriptor_file of a source and of parse on a worker thread', async t => {
  const folder = testFolder(t, { 'a.bin': '', 'b.log': '' })
  const descriptor = join(folder, 'old.binpb')
  writeFileSync(descriptor, DESCRIPTOR)
  const lines = (name: string) => {
    const path = join(folder, `${name}.ndjson`)
    return existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : []
  }
  const daemon = await startDaemon(
    t,
    folder,
    `
workers: 1
sources:
  a: { type: file, include: [a.bin], decode: { codec: protobuf, descriptor_file: old.binpb, message: acme.Old } }
  b: { type: file, include: [b.log] }
processors:
  parsed: { type: parse, inputs: [b], codec: protobuf, descriptor_file: old.binpb, message: acme.Old }
destinations:
  from_a: { type: file, path: a.ndjson, inputs: [a], encoding: json }
  from_b: { type: file, path: b.ndjson, inputs: [parsed], encoding: json }
`,
  )
  const write = () => {
    appendFileSync(join(folder, 'a.bin'), RECORD)
    appendFileSync(join(folder, 'b.log'), `${RECORD.subarray(1).toString('base64')}\n`)
  }
  const arrived = (count: number) => eventually(() => ['a', 'b'].every(name => lines(name).length === count))
  write()
  await arrived(1)
  writeFileSync(descriptor, RENAMED)
  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.logs().some(({ msg }) => msg === 'configuration reloaded'))
  write()
  await arrived(2)
  t.same(lines('a'), ['{"id":1,"text":"a"}', '{"id":1,"note":"a"}'])
  t.match(
    lines('b').map(line => JSON.parse(line)),
    [
      { id: 1, text: 'a' },
      { id: 1, note: 'a' },
    ],
  )
  t.match(await daemon.stop(t), { received: 4, undelivered: 0 })
})
