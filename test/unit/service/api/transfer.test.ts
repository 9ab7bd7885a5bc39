import { createHash } from 'node:crypto'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { MIGRATIONS } from '../../../../src/service/api/store/schema.js'
import type { Store, Value } from '../../../../src/service/api/store/store.js'
import { EXPORTED, exportStore, importStore } from '../../../../src/service/api/store/transfer.js'
import { testFolder } from '../../../support/folder.js'
import { openTestStore } from '../../../support/postgres.js'
import { put } from '../../../support/settings.js'

const unchecked = async () => {}
const STRANGE = 'ä \u2028 😀 \ufffd \r\n " \\ \' ${x} $1'

/** A folder, and stores in it that end with the test. */
async function prepared(t: Test) {
  const folder = testFolder(t)
  const open = async (name: string) => {
    const store = await openTestStore(join(folder, name))
    t.teardown(() => store.close())
    return store
  }
  return { open, from: await open('from'), to: await open('to'), path: (name: string) => join(folder, name) }
}

async function fill(store: Store): Promise<void> {
  await put(store, 'strange', STRANGE)
  await store.change('', async sql => {
    for (let i = 0; i < 250; i++) {
      const row = [`${i}`, 'e', 'a', `${i}@example.com`, STRANGE.slice(0, i), 'viewer', '2026']
      await sql.run('INSERT INTO person VALUES ($1, $2, $3, $4, $5, $6, $7)', ...row)
    }
    for (let i = 0; i < 220; i++) {
      const row = [i < 110 ? 'p' : 'q', (i % 110) + 1, 'a', 2_000_000_000 + i, '2026', 'u', `{"n":${i}}`]
      await sql.run('INSERT INTO revision VALUES ($1, $2, $3, $4, $5, $6, $7)', ...row)
    }
    await sql.run('INSERT INTO key_use VALUES ($1, $2)', 'k', '2026')
    const pipeline = ['p', 'e', 'a', 'web', 110, null, null, 3, '2026', '2026', null]
    await sql.run('INSERT INTO pipeline VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)', ...pipeline)
  })
}

/** The lines of a file, with the hashes that they should have. */
function hashed(texts: readonly string[]): string {
  let hash = ''
  const line = (text: string) => {
    hash = createHash('sha256')
      .update(hash + text)
      .digest('hex')
    return `${hash} ${text}\n`
  }
  return texts.map(line).join('')
}

t.test('an imported store gives the same export', async t => {
  const { from, to, path } = await prepared(t)
  await fill(from)
  const records = await exportStore(from, path('one'))
  t.equal(records, 1 + 250 + 220 + 1 + 1)
  t.equal(statSync(path('one')).mode & 0o777, 0o600)
  t.equal(await importStore(to, path('one'), unchecked), records)
  await exportStore(to, path('two'))
  const text = readFileSync(path('one'), 'utf8')
  t.equal(readFileSync(path('two'), 'utf8'), text)
  t.equal(
    hashed(
      text
        .split('\n')
        .slice(0, -1)
        .map(line => line.slice(65)),
    ),
    text,
    'each line has its hash',
  )
  await t.rejects(exportStore(from, path('one')), { code: 'EEXIST' })
  t.equal(readFileSync(path('one'), 'utf8'), text, 'nothing is overwritten')
})

t.test('a file that was changed or cut off is refused with its place, and nothing of it is imported', async t => {
  const { from, to, path } = await prepared(t)
  await put(from, 'strange', STRANGE)
  await from.run('INSERT INTO key_use VALUES ($1, $2)', 'k', STRANGE)
  await from.run('INSERT INTO key_use VALUES ($1, $2)', 'l', '2026')
  await exportStore(from, path('whole'))
  const whole = readFileSync(path('whole'))
  const refused = async (bytes: Buffer | string, what: string, message = /line \d+: /) => {
    writeFileSync(path('file'), bytes)
    await t.rejects(importStore(to, path('file'), unchecked), { message }, what)
  }
  for (let at = 0; at < whole.length; at += 7) {
    const place = new RegExp(`file, line ${whole.toString('latin1', 0, at).split('\n').length}: `)
    const changed = Buffer.from(whole)
    changed[at]! ^= at % 2 ? 1 : 128
    await refused(changed, `byte ${at} changed`, place)
    if (at % 4 === 0) await refused(whole.subarray(0, at), `cut off after ${at} bytes`, place)
  }
  await refused(whole.subarray(0, -1), 'without its last byte')
  const lines = whole.toString().split('\n').slice(0, -1)
  const texts = lines.map(line => line.slice(65))
  for (let i = 0; i < lines.length; i++) {
    const without = lines.filter((_, j) => j !== i)
    await refused(`${without.join('\n')}\n`, `without line ${i + 1}`)
    await refused(`${[...lines, lines[i]].join('\n')}\n`, `line ${i + 1} twice`)
  }
  await refused(hashed([...texts, texts[3]!]), 'a record twice', /the store refuses records: .*unique/i)
  await refused(hashed(texts.slice(0, 3)), 'records missing', /line 4: the file has 2 of 3 records/)
  await refused(hashed([...texts, '["nothing",{"a":1}]']), 'another table', /no such table/)
  await refused(
    hashed([...texts.slice(0, 2), '["key_use",{"key_id":"m","at) --":"2026"}]']),
    'another column',
    /no such table/,
  )
  const newer = texts[0]!.replace(/"schema":\d+/, `"schema":${MIGRATIONS.length + 1}`)
  await refused(hashed([newer, ...texts.slice(1)]), 'a newer version', /version of Sluice that made it/)
  await refused(hashed(['{"format":"another"}']), 'another file', /line 1: the file is not an export/)
  const fails = async () => {
    throw new Error('not this secret')
  }
  await t.rejects(importStore(to, path('whole'), fails), { message: 'not this secret' })

  const changing = (values: readonly Value[]) => values.map(value => (value === '2026' ? '2027' : value))
  const change: Store['change'] = (owner, work) =>
    to.change(owner, sql => work({ ...sql, run: (text, ...values) => sql.run(text, ...changing(values)) }))
  const other = importStore({ ...to, change } as Store, path('whole'), unchecked)
  await t.rejects(other, { message: /the imported records would differ/ })

  await exportStore(to, path('empty'))
  t.equal(readFileSync(path('empty'), 'utf8').split('\n').length, 2, 'the store is still empty')
  t.equal(await importStore(to, path('whole'), unchecked), 3)
  await t.rejects(importStore(to, path('whole'), unchecked), { message: /has records in the table key_use/ })
})

t.test('every table is exported, but those of running nodes', async t => {
  const tables = [...MIGRATIONS.join().matchAll(/CREATE TABLE (\w+)/g)].map(([, name]) => name)
  t.same([...Object.keys(EXPORTED), 'node', 'job', 'idempotency'].sort(), tables.sort())
})
