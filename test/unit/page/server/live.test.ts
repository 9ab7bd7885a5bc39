import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import t from 'tap'
import { Live } from '../../../../src/page/server/live.js'
import { turns, until } from '../../../support/until.js'

/** An answer whose reader takes what it likes. */
class Answer extends Writable {
  text = ''
  readonly req = { socket: Object.assign(new EventEmitter(), { closed: false }) }
  #waiting: (() => void) | undefined

  readonly #slow: boolean

  constructor(slow = false) {
    super()
    this.#slow = slow
  }

  writeHead(): this {
    return this
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    if (this.#slow) this.#waiting = done
    else done()
  }

  read(): void {
    const done = this.#waiting
    this.#waiting = undefined
    done?.()
  }

  get events(): string[] {
    return [...this.text.matchAll(/^event: (\w+)\ndata: (.{0,4})/gm)].map(([, name, data]) => `${name} ${data}`)
  }
}
const asResponse = (answer: Answer) => answer as unknown as ServerResponse

t.test('the status first, then a second after the other, and the status when it is another one', async t => {
  const live = new Live()
  t.equal(live.isRead, false)
  const [first, second] = [new Answer(), new Answer()]
  live.add(asResponse(first), 's1')
  live.second('n1')
  live.add(asResponse(second), 's2')
  live.second('n2')
  live.status('s3')
  live.second('n3')
  t.same(first.events, ['status s1', 'second n1', 'second n2', 'status s3', 'second n3'])
  t.same(second.events, ['status s2', 'second n2', 'status s3', 'second n3'])
  t.match(first.text, /^retry: \d+\n\n/)
  first.destroy()
  second.destroy()
  await until('nobody reads', () => !live.isRead)
})

t.test('a slow reader misses seconds and never the newest status, and one that reads nothing is ended', t => {
  const live = new Live()
  const [slow, quick] = [new Answer(true), new Answer()]
  for (const answer of [slow, quick]) live.add(asResponse(answer), 's0')
  const large = 'x'.repeat(200_000)
  for (let i = 1; i <= 3; i++) live.second(`n${i}${large}`)
  live.status('s1')
  live.second(`n4${large}`)
  // More than it may leave unread, and no more: seconds are skipped.
  t.ok(slow.writableLength < 1024 * 1024, `${slow.writableLength}`)
  const read = () => {
    for (let i = 0; i < 10; i++) slow.read()
  }
  read()
  setImmediate(() => {
    read()
    live.second('n5')
    read()
    setImmediate(() => {
      t.same(quick.events, [
        'status s0',
        'second n1xx',
        'second n2xx',
        'second n3xx',
        'status s1',
        'second n4xx',
        'second n5',
      ])
      t.equal(slow.events[0], 'status s0')
      t.ok(!slow.events.includes('second n4xx'), 'it missed that')
      live.status('y'.repeat(1_200_000))
      const other = new Answer(true)
      live.add(asResponse(other), 'y'.repeat(1_200_000))
      t.equal(other.destroyed, false)
      live.second('n6')
      t.equal(other.destroyed, true, 'it has left too much unread')
      t.end()
    })
  })
})

t.test('some readers at a time', async t => {
  const live = new Live()
  const answers = Array.from({ length: 33 }, () => new Answer())
  for (const answer of answers.slice(0, 32)) live.add(asResponse(answer), 's')
  t.throws(() => live.add(asResponse(answers[32]!), 's'), { status: 503, message: /open 32 times/ })
  answers[0]!.destroy()
  await turns()
  live.add(asResponse(answers[32]!), 's')
  t.same(answers[32]!.events, ['status s'])
})
