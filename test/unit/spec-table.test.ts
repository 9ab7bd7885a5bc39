import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkout } from '../support/checkout.js'

t.test('docs/spec.md names tests that exist', async t => {
  const files = new Map<string, string>()
  let rows = 0
  for (const line of readFileSync(join(checkout, 'docs/spec.md'), 'utf8').split('\n')) {
    if (!line.startsWith('| ') || line.startsWith('| line |')) continue
    rows++
    const [, file, name] = /\| `(test\/[\w/-]+\.test\.ts)`: (.+) \|$/.exec(line) ?? []
    if (!file || !name) {
      t.fail(`no test in this line: ${line}`)
      continue
    }
    if (!files.has(file)) files.set(file, readFileSync(join(checkout, file), 'utf8'))
    t.ok(files.get(file)!.includes(`t.test('${name}'`), `${file}: ${name}`)
  }
  t.ok(rows > 50, `${rows} lines`)
})
