import { Socket } from 'node:net'
import t from 'tap'
import { loadKafka } from '../../../../src/net/kafka/client.js'
import { KafkaConnection } from '../../../../src/net/kafka/connection.js'
import { heldBytes } from '../../../support/heap.js'

t.test('an answer that comes byte by byte takes no more memory than its bytes', async t => {
  const socket = new Socket()
  const connection = new KafkaConnection(await loadKafka(), socket)
  connection.isReady = true
  const size = Buffer.alloc(4)
  size.writeInt32BE(1_000_000)
  const before = heldBytes() + process.memoryUsage().arrayBuffers
  socket.emit('data', size)
  for (let n = 0; n < 900_000; n++) socket.emit('data', Buffer.from([n]))
  t.ok(heldBytes() + process.memoryUsage().arrayBuffers - before < 20_000_000)
  connection.destroy(new Error('closing'))
})

t.test('an answer is bounded by what was asked', async t => {
  const size = Buffer.alloc(4)
  size.writeInt32BE(2_000_000)
  for (const bytes of [100_000, 1_000_000]) {
    const socket = new Socket()
    const connection = new KafkaConnection(await loadKafka(), socket)
    connection.isReady = true
    const produced = connection.produce([Buffer.alloc(bytes)], new AbortController().signal)
    socket.emit('data', size)
    t.equal(connection.isOpen, bytes === 1_000_000)
    connection.destroy(new Error('closing'))
    await t.rejects(produced, bytes === 1_000_000 ? /closing/ : /its answer of 2000000 bytes is too long/)
  }
})
