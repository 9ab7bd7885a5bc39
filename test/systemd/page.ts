import type { Test } from 'tap'
import { commandLines, docBlocks } from '../support/doc-blocks.js'
import { Machine } from './machine.js'
import type { Ended } from './tree.js'

const TRIES = 50

/** Does what docs/systemd.md says, from its beginning to its end, in a tree that has nothing else to do. */
export async function systemdPage(t: Test, tell: (line: string) => void): Promise<void> {
  const machine = await Machine.boot(tell, { alone: true })
  t.teardown(() => machine.tree.end())
  for (const { language, words, text } of docBlocks('docs/systemd.md')) {
    const file = words.find(word => word.startsWith('file=/'))?.slice('file='.length)
    if (file !== undefined) machine.write({ [file]: text })
    if (language !== 'sh' || words[0] !== 'tree') continue
    for (const line of commandLines(text)) {
      tell(`# ${line}`)
      // What one of them began may take a moment to be seen by the next.
      let ended: Ended = { code: -1, stdout: '', stderr: '' }
      for (let tries = 0; tries < TRIES && ended.code !== 0; tries++) {
        if (tries > 0) await new Promise(resolve => setTimeout(resolve, 200))
        ended = await machine.tree.run('sh', ['-c', line])
      }
      for (const said of `${ended.stdout}${ended.stderr}`.trimEnd().split('\n')) if (said) tell(said)
      t.equal(ended.code, 0, `${line}\n${ended.stderr}`)
    }
  }
  t.match(await machine.do('cat /var/lib/sluice/kept.ndjson'), 'it was started by this line')
}
