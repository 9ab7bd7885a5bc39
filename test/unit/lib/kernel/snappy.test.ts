import { snappyDecompress } from '@platformatic/wasm-utils'
import t from 'tap'
import { theKernel } from '../../../../src/lib/kernel/kernel.js'
import { Snappy } from '../../../../src/lib/kernel/snappy.js'
import { rounds } from '../../../support/long-test.js'
import { Seeded } from '../../../support/seeded.js'

const snappy = theKernel()!.part(Snappy)

/** The text in parts that end anywhere. */
function partsOf(text: Buffer, random: Seeded): Buffer[] {
  const parts: Buffer[] = []
  for (let at = 0; at < text.length; ) {
    const size = 1 + random.below(random.chance(0.5) ? 100 : 100_000)
    parts.push(text.subarray(at, at + size))
    at += size
  }
  return parts
}

/** Random bytes, runs of a byte, and repetitions at any distance. */
function textOf(random: Seeded): Buffer {
  const text = Buffer.alloc(random.below(random.chance(0.3) ? 200_000 : 300))
  for (let at = 0; at < text.length; ) {
    const size = random.below(random.chance(0.1) ? 5000 : 90)
    const end = Math.min(text.length, at + size)
    const from = random.below(at + 1)
    if (random.chance(0.2)) text.fill(random.below(256), at, end)
    else if (random.chance(0.6)) text.copyWithin(at, from, Math.min(at, from + end - at))
    else for (let i = at; i < end; i++) text[i] = random.below(256)
    at = end
  }
  return text
}

t.test('what is compressed is what a decoder returns', async t => {
  const random = new Seeded(20_261_201)
  const zeros = [0, 1, 15, 16, 17, 60, 61, 64, 65, 68, 127, 128, 256, 257, 65_535, 65_536, 65_537].map(size =>
    Buffer.alloc(size),
  )
  const texts = [...zeros, ...Array.from({ length: rounds(3000, 200) }, () => textOf(random))]
  const wrong = texts.filter(text => {
    const compressed = snappy.compress(partsOf(text, random), text.length)
    const isLonger = compressed.length > text.length + text.length / 6 + 32
    return isLonger || (text.length > 0 && !snappyDecompress(compressed).equals(text))
  })
  t.same(
    wrong.map(({ length }) => length),
    [],
  )
})

t.test('lines become a fraction of their size', async t => {
  const lines = Array.from({ length: 5000 }, (_, i) => `{"app":"cart","n":${i},"message":"request completed"}\n`)
  const text = Buffer.from(lines.join(''))
  t.ok(snappy.compress([text], text.length).length < text.length * 0.35)
})
