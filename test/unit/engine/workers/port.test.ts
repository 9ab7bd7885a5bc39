import { once } from 'node:events'
import t from 'tap'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { Entrance } from '../../../../src/engine/workers/entrance.js'
import { Exit } from '../../../../src/engine/workers/exit.js'
import type { FromWorker, ToWorker } from '../../../../src/engine/workers/messages.js'
import { ROOM_BYTES, Rooms } from '../../../../src/engine/workers/rooms.js'
import type { FanOut } from '../../../../src/flow/fan-out.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { CHUNK_BYTES } from '../../../../src/lib/lines/chunk-memory.js'
import { batchOf } from '../../../support/batches.js'
import { eventually, turns } from '../../../support/patience.js'

type Accepted = Extract<ToWorker, { type: 'accepted' }>

/** An exit and the entrance that it leads to, as if they were on two threads. */
function connected() {
  const got: EventBatch[] = []
  const messages: FromWorker[] = []
  const accepted: Accepted[] = []
  const settled: AckStatus[] = []
  let room: Promise<void> | undefined
  const fanOut = {
    write(batch: EventBatch) {
      got.push(batch)
      return room
    },
  } as unknown as FanOut
  const rooms = new Rooms()
  const entrance = new Entrance(new Map([['x', fanOut]]), new WantedNames(), (message, transfer) => {
    const { taken, settled, shrunk, rooms: back } = structuredClone(message, { transfer: [...transfer!] }) as Accepted
    accepted.push(message as Accepted)
    for (const one of back) rooms.give(one)
    for (const [, number, bytes] of shrunk) exit.shrunk(number, bytes)
    for (const [, number, status] of settled) exit.settle(number, status)
    for (const _ of taken) exit.taken()
  })
  const exit: Exit = new Exit('x', rooms, (message, transfer = []) => {
    const copy = structuredClone(message, { transfer: [...transfer] })
    messages.push(copy)
    if (copy.type === 'batch') entrance.receive(copy)
  })
  let freed = 0
  const onShrink = (bytes: number) => {
    freed += bytes
  }
  const write = (lines: string[]) => {
    const batch = batchOf(lines, { onSettled: status => settled.push(status), onShrink })
    exit.arrived(batch.length)
    exit.write(batch)
    return batch
  }
  return {
    ...{ got, messages, accepted, settled, entrance, exit, write },
    /** Bytes that batches hold less than when they were written. */
    freed: () => freed,
    /** Makes readers full until the result is called. */
    fill() {
      let free = () => {}
      room = new Promise<void>(resolve => {
        free = resolve
      })
      return () => {
        room = undefined
        free()
      }
    },
  }
}

const linesOf = (batch: EventBatch) => Array.from({ length: batch.length }, (_, i) => batch.event(i).line.toString())

t.test('a batch arrives as it is, and its acknowledgement goes back', async t => {
  const { got, settled, write, exit, entrance } = connected()
  const batch = write(['{"n":1}', 'no object', '{"n":3}'])
  t.same(got.map(linesOf), [['{"n":1}', 'no object', '{"n":3}']])
  t.match(got[0], { bytes: 26, receivedAt: batch.receivedAt })
  t.match(got[0]!.origin, { source: batch.origin.source, host: batch.origin.host, codec: batch.origin.codec })
  t.same([exit.events, entrance.events], [3, 3])
  await turns()
  t.same(settled, [], 'not before it is settled there')
  got[0]!.ack.settle('rejected')
  await eventually(() => settled.length === 1)
  t.same(settled, ['rejected'])
})

t.test('changed fields and removed events arrive as they are', async t => {
  const { got, exit } = connected()
  const batch = batchOf(['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}'])
  batch.retain(i => i !== 1)
  batch.modify(1, { n: 30, more: true })
  exit.write(batch)
  t.same(
    [0, 1, 2].map(i => got[0]!.fields(i)),
    [{ n: 1 }, { n: 30, more: true }, { n: 4 }],
  )
})

t.test('acknowledgements of several batches go back in one message, and memory is used again', async t => {
  const { got, settled, write, accepted } = connected()
  const long = 'x'.repeat(CHUNK_BYTES / 2)
  for (let i = 0; i < 3; i++) write([long])
  for (const { ack } of got.splice(0)) ack.settle('delivered')
  await eventually(() => settled.length === 3)
  t.equal(accepted.length, 1)
  t.equal(accepted[0]!.rooms.length, 3)
  write([long])
  got[0]!.ack.settle('errored')
  await eventually(() => settled.length === 4)
  t.equal(accepted[1]!.rooms.length, 0, 'something may still read what was given up')
})

t.test('a batch counts with the whole memory of its record', async t => {
  const { write, freed } = connected()
  write(['x'.repeat(CHUNK_BYTES / 2)])
  t.equal(freed(), CHUNK_BYTES - ROOM_BYTES, 'not with the part that its lines take')
})

t.test('a batch that is needed by another output counts with its chunk and its record', async t => {
  const { exit } = connected()
  let taken = 0
  const onShrink = (bytes: number) => {
    taken -= bytes
  }
  const batch = batchOf(['x'.repeat(CHUNK_BYTES / 2)], { onShrink })
  batch.ack.fork()
  exit.write(batch)
  t.ok(taken >= ROOM_BYTES, `${taken} bytes`)
})

t.test('the record of a batch goes back when the few events that wait are elsewhere', async t => {
  const { got, settled, write, accepted, freed } = connected()
  write(['x'.repeat(CHUNK_BYTES / 2), 'y'])
  const batch = got[0]!
  batch.retain(i => i === 1)
  batch.compact()
  await eventually(() => accepted.some(({ rooms }) => rooms.length > 0))
  t.equal(freed(), CHUNK_BYTES - batch.chunk.length, 'the source may read on')
  t.equal(batch.event(0).line.toString(), 'y')
  t.same(settled, [])
  batch.ack.settle('delivered')
  await eventually(() => settled.length === 1)
  t.equal(accepted.flatMap(({ rooms }) => rooms).length, 1, 'once')
})

t.test('a record that an abandoned write may still read does not go back when the rest is elsewhere', async t => {
  const { got, write, accepted } = connected()
  write(['x'.repeat(CHUNK_BYTES / 2), 'y'])
  const batch = got[0]!
  batch.ack.fork()
  batch.ack.settle('errored')
  batch.retain(i => i === 1)
  batch.compact()
  batch.ack.settle('delivered')
  await eventually(() => accepted.some(({ settled }) => settled.length > 0))
  t.same(
    accepted.flatMap(({ rooms }) => rooms),
    [],
  )
})

t.test('a full reader slows the exit', async t => {
  const { got, write, messages, fill } = connected()
  const free = fill()
  for (let i = 0; i < 20; i++) write([`{"n":${i}}`])
  await turns()
  t.equal(got.length, 1, 'the others wait for room')
  t.ok(messages.length < 10, `${messages.length} are on their way`)
  free()
  await eventually(() => got.length === 20)
  t.same(
    got.map(batch => batch.fields(0).n),
    Array.from({ length: 20 }, (_, i) => i),
    'in order',
  )
})

t.test('an exit ends when everything is settled', async t => {
  const { got, write, exit, messages } = connected()
  write(['{"n":1}'])
  exit.end()
  const finished = once(exit, 'finish')
  await eventually(() => messages.at(-1)?.type === 'over')
  await turns()
  t.notOk(exit.writableFinished)
  got[0]!.ack.settle('delivered')
  await finished
  t.pass()
})

t.test('a destroyed exit gives back what is not settled, once', async t => {
  const { got, settled, write, exit } = connected()
  write(['{"n":1}'])
  exit.destroy()
  await eventually(() => settled.length === 1)
  t.same(settled, ['errored'])
  got[0]!.ack.settle('delivered')
  await turns()
  t.same(settled, ['errored'])
})
