import t from 'tap'
import { ChangedTexts } from '../../../src/core/event/changed-texts.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'

t.test('texts that are much longer than their lines are moved only a few times', async t => {
  const events = 20_000
  const texts = ChangedTexts.of(events, new WantedNames())
  const text = Buffer.alloc(1000, 'x')
  const arenas = new Set<Buffer>()
  for (let i = 0; i < events; i++) {
    // All lines together have a byte for each event.
    const at = texts.reserve(text.length, events)
    text.copy(texts.bytes, at)
    texts.end(at + text.length)
    texts.set(i, at, at + text.length)
    arenas.add(texts.bytes)
  }
  t.ok(arenas.size < 20, `${arenas.size} times`)
  for (const i of [0, 1, events - 1]) t.ok(texts.text(i).equals(text))
})
