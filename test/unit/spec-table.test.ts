import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkout } from '../support/checkout.js'

t.test('docs/spec.md names tests that exist', async t => {
  const page = readFileSync(join(checkout, 'docs/spec.md'), 'utf8')
  /** The text of each test file, by its name without ".test.ts". */
  const files = new Map<string, string>()
  for (const [, folder, names] of page.matchAll(/^- `(test\/[\w/-]+)`: (.+)$/gm))
    for (const name of names!.split(', '))
      files.set(name, readFileSync(join(checkout, folder!, `${name}.test.ts`), 'utf8'))
  let rows = 0
  for (const line of page.split('\n')) {
    if (!line.startsWith('| ') || line.startsWith('| line |')) continue
    rows++
    const [, file = '', name = ''] = /\| ([\w-]+): ([^|]+) \|$/.exec(line) ?? []
    // Of t.test or longTest.
    const found = files.get(file)?.split(`est('${name}`).length
    t.ok(name !== '' && found === 2, `one test has this name: ${line}`)
  }
  t.ok(rows > 45, `${rows} lines`)
})
