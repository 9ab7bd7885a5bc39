import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { surveyLetters } from '../../../../src/engine/run/dead-letter/letters.js'
import { testFolder } from '../../../support/folder.js'
import { freeChunks } from '../../../support/free-chunks.js'

t.test('what is read of a file of dead letters gives its memory back', async t => {
  const before = freeChunks()
  const path = join(testFolder(t), 'letters')
  const letter = '{"reason":"status_422","event":{"n":1}}\n'
  writeFileSync(path, `${letter.repeat(3)}${'x'.repeat(100_000)}`)
  t.equal((await surveyLetters(path)).events, 3)
  t.equal(freeChunks(), before)
})
