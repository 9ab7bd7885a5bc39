import t from 'tap'
import { type Encoded, encodeLines } from '../../../src/core/codecs/encode.js'
import { codecOf } from '../../../src/core/codecs/list.js'
import type { EventBatch } from '../../../src/core/event/batch.js'
import { SharedEncodings } from '../../../src/core/event/shared-encodings.js'
import { batchesOf, originOf } from '../../support/batches.js'

/** Copies of a batch of these lines, for so many destinations. */
const copiesOf = (lines: string, count: number): EventBatch[] => batchesOf(lines, originOf('text'))[0]!.forks(count)

/** Encodes requests with settings of a name, and counts how often. */
function encoder() {
  const counts = { encoded: 0, released: 0 }
  const encode = (name: string, request: readonly EventBatch[]) => {
    const settings = { name, isSame: (other: { name: string }) => other.name === name }
    return SharedEncodings.of(request, settings, () => {
      counts.encoded++
      const bytes = Buffer.from(`${name} ${request.map(({ length }) => length).join()}`)
      return { parts: [bytes], bytes: bytes.length, release: () => void counts.released++ }
    })
  }
  return { counts, encode }
}
const text = ({ parts }: Encoded) => Buffer.concat(parts).toString()

t.test('equal settings share the bytes of a request, other settings do not', async t => {
  const { counts, encode } = encoder()
  const [a, b, c] = copiesOf('one\ntwo\n', 3)
  const [first, second, other] = [encode('x', [a!]), encode('x', [b!]), encode('y', [c!])]
  t.equal(counts.encoded, 2)
  t.equal(first.parts[0], second.parts[0], 'without a copy')
  t.equal(text(other), 'y 2')
  first.parts.unshift(Buffer.from('added '))
  t.equal(text(second), 'x 2', 'what one destination adds is not in the bytes of another')
})

t.test('memory is released once, by the last destination, and the bytes are not kept for later', async t => {
  const { counts, encode } = encoder()
  const [a, b, c] = copiesOf('one\n', 3)
  const [first, second] = [encode('x', [a!]), encode('x', [b!])]
  first.release?.()
  first.release?.()
  t.equal(counts.released, 0, 'another destination still reads them')
  second.release?.()
  t.equal(counts.released, 1)
  encode('x', [c!])
  t.equal(counts.encoded, 2, 'a destination that is behind encodes them again')
})

t.test('only requests with the same events share', async t => {
  const { counts, encode } = encoder()
  const [a, b, c, d] = copiesOf('one\ntwo\nthree\n', 4)
  const [e, f] = copiesOf('four\n', 2)
  const held = [encode('x', [a!]), encode('x', [b!.fork(0, 2)]), encode('x', [c!.fork(1, 3)]), encode('x', [d!, e!])]
  t.equal(counts.encoded, 4)
  t.equal(encode('x', [d!.fork(1, 3)]).parts[0], held[2]!.parts[0], 'the same part of a batch')
  t.equal(encode('x', [a!, f!]).parts[0], held[3]!.parts[0], 'the same batches')
  t.equal(counts.encoded, 4)
})

t.test('a copy that was changed, shortened or moved is encoded by itself', async t => {
  const json = codecOf('json')!
  const lines = (batch: EventBatch) =>
    text(encodeLines(json, [batch]))
      .trimEnd()
      .split('\n')
  const changes: ((batch: EventBatch) => void)[] = [
    batch => batch.modify(0, { message: 'other' }),
    batch => void batch.retain(i => i === 1),
    batch => batch.move(Buffer.from('ONE\nTWO\n'), Int32Array.of(0, 4), Int32Array.of(3, 7)),
  ]
  for (const change of changes) {
    const [plain, changed] = copiesOf('one\ntwo\n', 2)
    const [late] = [changed!.fork()]
    const before = lines(plain!)
    change(changed!)
    t.notSame(lines(changed!), before)
    t.same(lines(late), before)
    t.same(lines(plain!), before)
  }
})

t.test('a codec of equal options shares its lines', async t => {
  const [a, b, c] = copiesOf('one\n', 3)
  const first = encodeLines(codecOf('json')!, [a!])
  t.equal(encodeLines(codecOf('json')!, [b!]).parts[0], first.parts[0])
  t.not(encodeLines(codecOf('logfmt')!, [c!]).parts[0], first.parts[0])
  const [alone] = batchesOf('one\n', originOf('text'))
  t.equal(alone!.shared, undefined, 'nothing is kept for a single destination')
})
