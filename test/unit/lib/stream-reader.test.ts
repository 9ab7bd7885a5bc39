import { connect, createServer, type Server, type Socket } from 'node:net'
import { PassThrough, type Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { SharedReadServer } from '../../../src/lib/network/shared-reads.js'
import { REFUSED, StreamReader, type StreamReceiver } from '../../../src/lib/network/stream-reader.js'
import { HOST, listening } from '../../support/address.js'
import { turns, until } from '../../support/until.js'

class Taken implements StreamReceiver {
  readonly parts: Buffer[] = []
  /** How many bytes it takes at a time. */
  most = Number.POSITIVE_INFINITY
  accepts = true
  #room: Promise<void> | undefined
  #open = () => {}
  take(bytes: Buffer): number {
    const taken = Buffer.from(bytes.subarray(0, this.most))
    this.parts.push(taken)
    return this.accepts ? taken.length : REFUSED
  }
  room(): Promise<void> | undefined {
    return this.#room
  }
  block(): void {
    this.#room = new Promise(resolve => {
      this.#open = () => {
        this.#room = undefined
        resolve()
      }
    })
  }
  unblock(): void {
    this.#open()
  }
  get text(): string {
    return Buffer.concat(this.parts).toString()
  }
}

interface Ends {
  readonly stream: Readable
  /** Resolves when so many bytes have come, whether they were passed on or not. */
  came(bytes: number): Promise<unknown>
  write(text: string | Buffer): void
  end(): void
  fail(): void
}

const connection = (t: Test) => accepted(t, serve => new SharedReadServer(serve))

/** A connection that Node.js makes buffers for, as a SharedReadServer has it where it cannot do anything else. */
const plain = (t: Test) => accepted(t, serve => createServer({ pauseOnConnect: true }, serve))

async function accepted(t: Test, make: (serve: (socket: Socket) => void) => Server): Promise<Ends> {
  let accepted: Socket | undefined
  const server = make(socket => {
    socket.on('error', () => {})
    accepted = socket
  })
  const sender = connect(await listening(t, server), HOST).setNoDelay(true)
  sender.on('error', () => {})
  await until(() => accepted !== undefined)
  const stream = accepted!
  t.teardown(() => {
    sender.destroy()
    stream.destroy()
  })
  const fail = () => void sender.resetAndDestroy()
  const came = (bytes: number) => until(`${bytes} bytes`, () => stream.bytesRead >= bytes)
  return { stream, came, write: text => void sender.write(text), end: () => void sender.end(), fail }
}

async function pipe(): Promise<Ends> {
  const stream = new PassThrough()
  const fail = () => void stream.destroy(new Error('broken'))
  const came = async () => {}
  return { stream, came, write: text => void stream.write(text), end: () => void stream.end(), fail }
}

for (const [kind, open] of Object.entries({ connection, plain, pipe })) {
  t.test(`${kind}: everything is passed on, to the end`, async t => {
    const { stream, write, end } = await open(t)
    const taken = new Taken()
    const ended = new StreamReader(stream, taken).read()
    write('one ')
    await until(() => taken.text === 'one ')
    write('two')
    end()
    t.equal(await ended, 'ended')
    t.equal(taken.text, 'one two')
    t.equal(await new StreamReader(stream, taken).read(), 'ended', 'a stream that has ended')
  })

  t.test(`${kind}: without room nothing is passed on, and the sender waits`, async t => {
    const { stream, came, write, end } = await open(t)
    const taken = new Taken()
    const ended = new StreamReader(stream, taken).read()
    write('first ')
    await until(() => taken.parts.length === 1)
    taken.block()
    for (let n = 0; n < 64; n++) write(Buffer.alloc(1 << 20, 'x'))
    end()
    await came(7)
    await turns()
    t.equal(taken.text, 'first ')
    taken.unblock()
    t.equal(await ended, 'ended')
    t.equal(taken.text.length, 6 + (64 << 20))
  })

  t.test(`${kind}: a receiver that takes less gets the rest when it has room`, async t => {
    const { stream, write, end } = await open(t)
    const taken = new Taken()
    taken.most = 4
    const reader = new StreamReader(stream, taken)
    const abort = new AbortController()
    const { take } = taken
    taken.take = bytes => {
      taken.block()
      setImmediate(() => taken.unblock())
      if (taken.parts.length === 1) abort.abort()
      return take.call(taken, bytes)
    }
    const aborted = reader.read({ signal: abort.signal })
    write('one two three')
    t.equal(await aborted, 'aborted')
    t.equal(taken.text, 'one two ')
    const ended = reader.read()
    end()
    t.equal(await ended, 'ended')
    t.same(taken.parts.map(String), ['one ', 'two ', 'thre', 'e'])
  })

  t.test(`${kind}: what was read before a failure is passed on, when there is room`, async t => {
    const { stream, came, write, fail } = await open(t)
    const taken = new Taken()
    const ended = new StreamReader(stream, taken).read()
    write('one')
    await until(() => taken.parts.length === 1)
    taken.block()
    write(' two')
    await came(7)
    fail()
    await turns()
    t.equal(taken.text, 'one')
    taken.unblock()
    t.equal(await ended, 'ended')
    t.equal(taken.text, 'one two')
  })

  t.test(`${kind}: after an abort nothing is lost and nothing is read`, async t => {
    const { stream, came, write, end } = await open(t)
    const taken = new Taken()
    const reader = new StreamReader(stream, taken)
    const abort = new AbortController()
    const aborted = reader.read({ signal: abort.signal })
    write('one')
    await until(() => taken.parts.length === 1)
    taken.block()
    write(' two')
    await came(7)
    abort.abort()
    t.equal(await aborted, 'aborted')
    t.equal(await reader.read({ signal: abort.signal }), 'aborted', 'again')
    taken.unblock()
    await turns()
    t.equal(taken.text, 'one')
    const ended = reader.read()
    end()
    t.equal(await ended, 'ended')
    t.equal(taken.text, 'one two')
  })

  t.test(`${kind}: a receiver that refuses gets nothing more; one that throws neither`, async t => {
    for (const throws of [false, true]) {
      const { stream, write } = await open(t)
      const taken = new Taken()
      taken.accepts = false
      const reader = new StreamReader(stream, taken)
      if (throws) {
        taken.take = () => {
          throw new Error('a fault')
        }
      }
      const stopped = reader.read()
      write('one')
      if (throws) await t.rejects(stopped, { message: 'a fault' })
      else t.equal(await stopped, 'refused')
      write('two')
      await turns()
      t.equal(taken.text, throws ? '' : 'one')
    }
  })

  t.test(`${kind}: idle is who sends nothing, not who has to wait for room`, async t => {
    const { stream, write } = await open(t)
    const taken = new Taken()
    const reader = new StreamReader(stream, taken)
    taken.block()
    const idle = reader.read({ idleMs: () => 30 })
    let isOver = false
    void idle.then(() => (isOver = true))
    write('x')
    // Twice as long as it may be idle.
    await new Promise(resolve => setTimeout(resolve, 60))
    t.notOk(isOver)
    taken.unblock()
    t.equal(await idle, 'idle')
    t.equal(taken.text, 'x')
    write('y')
    t.equal(await reader.read({ idleMs: () => 30 }), 'idle')
    t.equal(taken.text, 'xy', 'it can be read again')
  })

  t.test(`${kind}: what came while the process stood still is not taken for a pause`, async t => {
    const { stream, write } = await open(t)
    const taken = new Taken()
    const reader = new StreamReader(stream, taken)
    const idle = reader.read({ idleMs: () => 50 })
    let isOver = false
    void idle.then(() => (isOver = true))
    write('x')
    for (const end = performance.now() + 100; performance.now() < end; );
    await until(() => isOver || taken.parts.length > 0)
    t.equal(taken.text, 'x')
    t.notOk(isOver)
    t.equal(await idle, 'idle')
  })
}

t.test('a connection that always has more does not keep others waiting', async t => {
  const { stream, write, end } = await connection(t)
  const taken = new Taken()
  let [inTurn, most] = [0, 0]
  const { take } = taken
  taken.take = bytes => {
    most = Math.max(most, (inTurn += bytes.length))
    return take.call(taken, bytes)
  }
  const turn = () => {
    inTurn = 0
    next = setImmediate(turn)
  }
  let next = setImmediate(turn)
  t.teardown(() => clearImmediate(next))
  const ended = new StreamReader(stream, taken).read()
  for (let n = 0; n < 32; n++) write(Buffer.alloc(1 << 20, 48 + n))
  end()
  t.equal(await ended, 'ended')
  t.ok(most <= 1 << 19, `${most} bytes in one turn`)
  const sent = Buffer.concat(Array.from({ length: 32 }, (_, n) => Buffer.alloc(1 << 20, 48 + n)))
  t.ok(Buffer.concat(taken.parts).equals(sent))
})

t.test('nothing is read of a connection only to be kept until there is room', async t => {
  const { stream, write, end } = await connection(t)
  const taken = new Taken()
  let [sum, most] = [0, 0]
  const { take } = taken
  taken.take = bytes => {
    sum += bytes.length
    taken.block()
    setTimeout(() => {
      most = Math.max(most, (stream as Socket).bytesRead - sum)
      taken.unblock()
    }, 2)
    return take.call(taken, bytes)
  }
  const ended = new StreamReader(stream, taken).read()
  for (let n = 0; n < 8; n++) write(Buffer.alloc(1 << 20, 'x'))
  end()
  t.equal(await ended, 'ended')
  t.equal(taken.text.length, 8 << 20)
  t.equal(most, 0)
})

t.test('what a stream keeps is passed on when it is released', async t => {
  const { stream, came, write } = await connection(t)
  const taken = new Taken()
  const reader = new StreamReader(stream, taken)
  const abort = new AbortController()
  const aborted = reader.read({ signal: abort.signal })
  write('one')
  await until(() => taken.parts.length === 1)
  taken.block()
  write(' two')
  await came(7)
  abort.abort()
  await aborted
  const released = reader.release()
  taken.unblock()
  await released
  t.equal(taken.text, 'one two')
  t.equal(stream.listenerCount('end'), 1, 'only that of Node.js itself')
})

t.test('small buffers that come together are passed on together', async t => {
  const stream = new PassThrough({ highWaterMark: 1 << 20 })
  const taken = new Taken()
  const ended = new StreamReader(stream, taken).read()
  for (let n = 0; n < 40; n++) {
    stream.write(Buffer.alloc(16 * 1024, 48 + n))
    await new Promise(resolve => process.nextTick(resolve))
  }
  stream.end()
  t.equal(await ended, 'ended')
  t.ok(taken.parts.length < 10, `${taken.parts.length} parts`)
  t.ok(
    Buffer.concat(taken.parts).equals(
      Buffer.concat(Array.from({ length: 40 }, (_, n) => Buffer.alloc(16 * 1024, 48 + n))),
    ),
  )
})

t.test('what is kept of a connection is not overwritten by reads of another', async t => {
  const [waiting, other] = [await connection(t), await connection(t)]
  const [later, now] = [new Taken(), new Taken()]
  const ended = new StreamReader(waiting.stream, later).read()
  waiting.write('a')
  await until(() => later.parts.length === 1)
  later.block()
  waiting.write('b'.repeat(5000))
  await waiting.came(5001)
  const others = new StreamReader(other.stream, now).read()
  other.write('c'.repeat(9000))
  other.end()
  await others
  later.unblock()
  waiting.end()
  await ended
  t.equal(later.text, `a${'b'.repeat(5000)}`)
})
