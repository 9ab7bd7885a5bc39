import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { stdin } from '../../../../src/components/stdio/source.js'
import { RawEncoder } from '../../../../src/core/codecs/encode.js'
import type { Output, SourceContext } from '../../../../src/core/component.js'
import { Ack, type AckStatus } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { systemClock } from '../../../../src/lib/time.js'
import { originOf } from '../../../support/batches.js'
import { until } from '../../../support/until.js'

class Collector implements Output {
  readonly batches: EventBatch[] = []
  readonly counters = new ComponentCounters('in', 'source', 'stdin')
  room = Promise.resolve()
  ack(onSettled: (status: AckStatus) => void): Ack {
    return new Ack(onSettled)
  }
  async send(batch: EventBatch): Promise<void> {
    this.batches.push(batch)
    await this.room
  }
  get text(): string {
    return Buffer.concat(new RawEncoder().encode(this.batches).parts).toString()
  }
  get lines(): string[] {
    return this.batches.flatMap(b => Array.from({ length: b.length }, (_, i) => b.line(i).toString()))
  }
}

async function start(options: Record<string, unknown> = {}) {
  const stream = new PassThrough()
  const out = new Collector()
  const context = {
    id: 'in',
    log: pino({ level: 'silent' }),
    clock: systemClock,
    metrics: out.counters,
    stdin: stream,
    origin: () => originOf('text'),
  } as unknown as SourceContext
  const source = await stdin.create(stdin.options.parse(options), context)
  const abort = new AbortController()
  return { stream, out, abort, run: source.run(out, abort.signal) }
}

t.test('reads to the end, byte for byte', async t => {
  const { stream, out, run } = await start()
  const input = `one\r\ntwo\n\n${'x'.repeat(200_000)}\n\0\nunfinished`
  for (let at = 0; at < input.length; at += 1777) stream.write(input.slice(at, at + 1777))
  stream.end()
  await run
  t.equal(out.text, input)
  t.equal(out.lines.length, 6)
})

t.test('a byte order mark at the beginning is not part of the first line', async t => {
  const { stream, out, run } = await start({ multiline: { start: '^\\d' } })
  stream.end('\ufeff1 first\n more\n\ufeff2 second\n3 third\n')
  await run
  t.same(out.lines, ['1 first\n more\n\ufeff2 second', '3 third'])
})

t.test('an empty input ends', async t => {
  const { stream, out, run } = await start()
  stream.end()
  await run
  t.equal(out.batches.length, 0)
})

t.test('an unfinished line is delivered after its time, once, and continued', async t => {
  const { stream, out, run } = await start({ partial_line_timeout: '30ms' })
  stream.write('whole\nhalf')
  await until(() => out.lines.length === 2)
  stream.write(' rest\nnext\n')
  stream.end()
  await run
  t.same(out.lines, ['whole', 'half', ' rest', 'next'])
  t.equal(out.text, 'whole\nhalf rest\nnext\n')
})

t.test('an abort delivers what was read', async t => {
  const { stream, out, abort, run } = await start()
  stream.write('a\nb')
  await new Promise(resolve => setImmediate(resolve))
  abort.abort()
  await run
  t.equal(out.text, 'a\nb')
  t.notOk(stream.destroyed, 'the stream is not ours to close')
})

t.test('over-long lines come in pieces, counted', async t => {
  const { stream, out, run } = await start({ max_line_bytes: 1024 })
  const input = `${'y'.repeat(3000)}\nz\n`
  out.counters.counter('sluice_line_pieces_total', '').value = 5
  stream.end(input)
  await run
  t.equal(out.text, input)
  t.same(
    out.lines.map(line => line.length),
    [1024, 1024, 952, 1],
  )
  t.equal(out.counters.counter('sluice_line_pieces_total', '').value, 5 + 2, 'added to those before a reload')
})

t.test('an error of the stream is told; what cannot be delivered is counted', async t => {
  const { stream, out, run } = await start()
  stream.write('a\n')
  await new Promise(resolve => setImmediate(resolve))
  out.batches[0]!.ack.settle('errored')
  t.equal(out.counters.failures.get('undelivered'), 1)
  stream.destroy(new Error('broken'))
  await t.rejects(run, /broken/)
})

t.test('a batch that cannot be sent ends the run, with its error', async t => {
  for (const text of ['a\n', 'unfinished']) {
    const { stream, out, run } = await start()
    out.room = Promise.reject(new Error('a fault'))
    out.room.catch(() => {})
    stream.end(text)
    await t.rejects(run, { message: 'a fault' })
  }
})
