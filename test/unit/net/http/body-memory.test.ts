import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { Readable } from 'node:stream'
import t from 'tap'
import type { Codec } from '../../../../src/core/codec.js'
import type { SourceContext } from '../../../../src/core/component.js'
import { Ack, type AckStatus } from '../../../../src/core/event/ack.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { bodyText, readAnswer } from '../../../../src/net/http/client/answers/read-answer.js'
import { sendBody } from '../../../../src/net/http/events/send-body.js'
import { readBody } from '../../../../src/net/http/server/body.js'
import { bodyRoom, freeBody, takeBody } from '../../../../src/net/http/server/body-memory.js'
import { HOST, listening } from '../../../support/address.js'
import { heldBytes } from '../../../support/heap.js'

const KIB = 1024

t.test('memory that was given back is used again, for bodies of about the same size', async t => {
  const [first, second] = [takeBody(bodyRoom(30_000)), takeBody(bodyRoom(32 * KIB))]
  t.same([first.length, second.length], [32 * KIB, 32 * KIB])
  t.ok(first !== second, 'what is in use is nobody else’s')
  t.equal(bodyRoom(32 * KIB + 1), 40 * KIB)
  freeBody(first)
  t.ok(takeBody(bodyRoom(31 * KIB)) === first)
  t.ok(takeBody(bodyRoom(32 * KIB)) !== first, 'it is given once')
  freeBody(second)
  t.ok(takeBody(bodyRoom(33 * KIB)) !== second)
})

t.test('neither small buffers nor more than 8 MiB are kept', async t => {
  t.equal(bodyRoom(100), 100)
  const small = takeBody(100)
  freeBody(small)
  t.ok(takeBody(100) !== small)
  const [large, larger] = [takeBody(4096 * KIB), takeBody(16_384 * KIB)]
  freeBody(larger)
  t.ok(takeBody(16_384 * KIB) !== larger)
  freeBody(large)
  t.ok(takeBody(4096 * KIB) === large)
})

t.test(
  'bodies that arrive in parts and at the same time are whole, and leave their memory to the next ones',
  async t => {
    const lease = { hold() {}, received() {}, release() {} }
    const buffers = new Set<ArrayBufferLike>()
    const server = createServer((incoming, response) => {
      void readBody(incoming, { maxBytes: 1024 * KIB, lease, onBegin() {} }).then(({ bytes, size }) => {
        buffers.add(bytes.buffer)
        response.end(bytes.subarray(0, size), () => freeBody(bytes))
      })
    })
    const port = await listening(t, server)
    const echo = async (letter: string, size: number) => {
      const sent = request({ host: HOST, port, method: 'POST', agent: false })
      for (let at = 0; at < size; at += 10_000) {
        sent.write(letter.repeat(Math.min(10_000, size - at)))
        await new Promise(setImmediate)
      }
      sent.end()
      const [response] = await once(sent, 'response')
      const parts: Buffer[] = []
      for await (const part of response) parts.push(part)
      return Buffer.concat(parts).toString() === letter.repeat(size)
    }
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all([...'abcdefgh'].map((letter, i) => echo(letter, 20_000 + i * 15_000)))
      t.ok(answers.every(Boolean), 'whole')
    }
    t.ok(buffers.size < 40, `${buffers.size} buffers for 40 bodies`)
  },
)

t.test('a body is released when the last of its events is sent, and not before', async t => {
  const size = 600 * KIB
  const bytes = Buffer.alloc(size + 1, 'a line\n')
  let [sent, released, inOrder] = [0, 0, true]
  const out = {
    ack: (onSettled: (status: AckStatus) => void) => new Ack(onSettled),
    async send() {
      sent++
      await new Promise(setImmediate)
      inOrder &&= released === 0
    },
  }
  const context = {
    origin: (codec: Codec) => ({ source: 'in', codec, wanted: new WantedNames() }),
    clock: { wall: () => 0 },
  } as unknown as SourceContext
  const release = () => void released++
  await sendBody({ bytes, size, content: 'text', peer: undefined, release }, { context, out, maxLineBytes: 1000 })
  t.same([sent, released, inOrder], [3, 1, true])
})

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
  const body = Readable.from(parts(), { objectMode: false })
  const { text, isUnreadable } = await readAnswer({ body, headers: {} }, list, [])
  t.match(text, /^x{4096}$/)
  t.notOk(isUnreadable)
  t.ok(held < 2 * MEBIBYTE, `${held >> 10} KiB are held`)
})

t.test('what is too long is not read to its end', async t => {
  let given = 0
  function* parts() {
    for (; ; given += MEBIBYTE) yield Buffer.alloc(MEBIBYTE, 'a')
  }
  const endless = () => Readable.from(parts(), { objectMode: false })
  const list = { name: 'items', entry: () => undefined }
  const headers = { 'content-type': 'application/json' }
  t.ok((await readAnswer({ body: endless(), headers }, list, [])).isUnreadable)
  t.ok(given < 32 * MEBIBYTE)
  given = 0
  t.equal((await bodyText(endless())).length, 64 * KIB)
  t.ok(given < 4 * MEBIBYTE)
})
