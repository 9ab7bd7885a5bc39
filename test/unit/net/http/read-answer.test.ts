import { Readable } from 'node:stream'
import t from 'tap'
import { bodyText, readAnswer } from '../../../../src/net/http/client/answers/read-answer.js'
import { heldBytes } from '../../../support/heap.js'

const MEBIBYTE = 1024 * 1024

t.test('a body that comes byte by byte takes little more memory than its bytes', async t => {
  const PARTS = 60_000
  const slab = Buffer.alloc(64 * 1024, 'x')
  const before = heldBytes()
  let held = 0
  function* parts() {
    for (let n = 0; n < PARTS; n++) yield slab.subarray(0, 1)
    held = heldBytes() - before
  }
  const list = { name: 'items', entry: () => undefined }
  const { text, unreadable } = await readAnswer(Readable.from(parts(), { objectMode: false }), list)
  t.match(text, /^x{4096}$/)
  t.notOk(unreadable)
  t.ok(held < 2 * MEBIBYTE, `${held >> 10} KiB are held`)
})

t.test('what is too long is not read to its end', async t => {
  let given = 0
  function* parts() {
    for (; ; given += MEBIBYTE) yield Buffer.alloc(MEBIBYTE, 'a')
  }
  const endless = () => Readable.from(parts(), { objectMode: false })
  t.ok((await readAnswer(endless(), { name: 'items', entry: () => undefined })).unreadable)
  t.ok(given < 32 * MEBIBYTE)
  given = 0
  t.equal((await bodyText(endless())).length, 4096)
  t.ok(given < 4 * MEBIBYTE)
})
