import t from 'tap'
import { PLAIN_TEXT } from '../../../../src/core/codecs/text.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { Taker } from '../../../../src/engine/testing/taker.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { findLines } from '../../../../src/lib/kernel/find-lines.js'
import { CHUNK_BYTES } from '../../../../src/lib/lines/chunk-memory.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'

t.test('lines that were settled stay as they were when others come into their memory', async t => {
  const out = new Taker('delivered')
  const origin = { source: 'in', host: 'here', codec: PLAIN_TEXT, wanted: new WantedNames() }
  const sent = ['one', 'three'].map(text => Array<string>(300).fill(text))
  for (const lines of sent) {
    const splitter = new LineSplitter(1 << 20, false, findLines)
    const length = splitter.reserve(CHUNK_BYTES).write(`${lines.join('\n')}\n`)
    const frame = splitter.commit(length)!
    splitter.release()
    await out.send(
      new EventBatch(
        frame,
        origin,
        0,
        out.ack(() => {}),
      ),
    )
  }
  t.same(out.lines, sent.flat())
})
