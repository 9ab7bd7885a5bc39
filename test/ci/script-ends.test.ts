import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testFolder } from '../support/folder.js'
import { reasonsIn, through } from '../support/through-script.js'

/** Scripts that do not return, end their process or need too much memory. */

t.test('a slow function that does not wait is ended between two calls', async t => {
  const code = `event => { const end = performance.now() + 5; while (performance.now() < end); return { n: 1 } }`
  const { left, counters } = await through(t, { code, timeout: '50ms' }, [Array.from({ length: 100 }, () => ({}))])
  t.ok(left.main!.includes('{"n":1}'))
  t.ok(reasonsIn(left.main).includes('the batch took longer than 50ms'))
  t.equal(counters.passed.events, 100)
})

t.test('what needs much memory at once ends the process of the script alone, and costs its event', async t => {
  const code = `const made = {
    text: () => 'x'.repeat(2e8).split(''), array: () => new Array(2 ** 27).fill(1), json: () => JSON.parse('[' + '1,'.repeat(5e7) + '1]'),
    buffers: () => { for (const all = []; ; ) all.push(Buffer.alloc(1e7, 1)) }, well: () => 1,
  };
  event => ({ n: made[event.what]().length })`
  const cases = ['text', 'array', 'json', 'buffers', 'well']
  const { left } = await through(t, { code, max_memory: '64MiB', timeout: '20 Seconds' }, [
    cases.map(what => ({ what })),
  ])
  const reasons = reasonsIn(left.main)
  t.same([reasons.at(-1), left.main!.at(-1)], [undefined, '{}'])
  for (const [i, reason] of reasons.slice(0, -1).entries())
    t.match(
      reason,
      /^it needed more than max_memory$|Array buffer allocation failed$|Failed to allocate memory$/,
      String(cases[i]),
    )
})

t.test('a batch whose process ends again and again fails as a whole', async t => {
  const folder = testFolder(t, {
    'ends.js': `import { appendFileSync } from 'node:fs'
appendFileSync(new URL('starts', import.meta.url), '.')
export default () => process.exit()
`,
  })
  const ending = await through(t, { file: join(folder, 'ends.js') }, [Array.from({ length: 14 }, () => ({}))])
  t.same(reasonsIn(ending.left.main), Array(14).fill('it ended itself'))
  t.equal(ending.counters.passed.events, 14)
  t.equal(readFileSync(join(folder, 'starts'), 'utf8').length, 12, 'starts')
  // In no call.
  const late = await through(
    t,
    { code: 'setTimeout(() => { throw new Error("late") }); e => new Promise(() => {})', timeout: '9s', per: 'batch' },
    [[{}]],
  )
  t.match(reasonsIn(late.left.main), [/^it failed: line 1, column \d+ of the code: late$/])
})

t.test('events that grow without bounds fail', async t => {
  const code = `event => event.many ? Array.from({ length: event.many }, () => ({ text: 'x'.repeat(event.size) })) : { text: 'x'.repeat(event.size) }`
  const events = [{ size: 1e6 }, { size: 1.1e6 }, { many: 1000, size: 1e4 }, { many: 1000, size: 2e4 }]
  const { left } = await through(t, { code, timeout: '30 Seconds' }, [
    events,
    Array.from({ length: 40 }, () => ({ size: 9e5 })),
  ])
  const failed = reasonsIn(left.main).filter(reason => reason !== undefined)
  t.match(failed[0], /^the script returned too much for one event: it would grow by more than 1 MiB/)
  t.match(failed[1], /the events made from it would have more than 16 MiB together$/)
  t.match(
    failed[2],
    /^the script returned too much .*: it and other events read with it would grow to more than 32 MiB/,
  )
  t.equal(failed.length, 2 + 40 - Math.floor((32 * 1024 * 1024) / (9e5 + '{"text":""}\n'.length)))
})

t.test('a process that says something else is ended', async t => {
  const folder = testFolder(t, {
    'mine.js': `import { writeSync } from 'node:fs'
export default event => {
  if (event.lie) writeSync(4, Buffer.from([4, 0, 0, 0, 0, 0, 0, 0, 0x6e, 0x75, 0x6c, 0x6c]))
  while (event.lie);
  return event
}
`,
  })
  const { left } = await through(t, { file: join(folder, 'mine.js'), timeout: '20s' }, [
    [{ n: 1 }, { lie: 1 }, { n: 2 }],
  ])
  t.same(reasonsIn(left.main), [undefined, 'its process sent a head that is not an object', undefined])
})

t.test('a call that does not return is ended, also if it writes all the time', async t => {
  const folder = testFolder(t, {
    'busy.js': `import { existsSync, writeFileSync, writeSync } from 'node:fs'
const started = new URL('started', import.meta.url)
const isFirst = !existsSync(started)
writeFileSync(started, '')
const head = Buffer.from('{"type":"wrote","line":"busy"}')
const cell = new Int32Array(new SharedArrayBuffer(4))
export default event => {
  while (isFirst) {
    writeSync(4, Buffer.concat([Buffer.from([head.length, 0, 0, 0, 0, 0, 0, 0]), head]))
    Atomics.wait(cell, 0, 0, 50)
  }
  return event
}
`,
  })
  const { left, logged } = await through(t, { file: join(folder, 'busy.js'), timeout: '100ms' }, [[{ n: 1 }]])
  t.same(left.main, ['{"n":1}'])
  const ended = logged.find(({ code }) => code === 'SLUICE_SCRIPT_ENDED')
  t.match(ended, { error: 'a call did not return within 100ms' })
})

t.test('a call that does not return is noticed after a start that took longer than a call may', async t => {
  const folder = testFolder(t, {
    'slow.js': `import { existsSync, writeFileSync } from 'node:fs'
const started = new URL('started', import.meta.url)
if (existsSync(started)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500)
writeFileSync(started, '')
export default event => {
  if (event.exit) process.exit(3)
  while (event.hang);
  return event
}
`,
  })
  const options = { file: join(folder, 'slow.js'), timeout: '100ms' }
  const { left } = await through(t, options, [
    [{ exit: 1 }, { exit: 1 }],
    [{ hang: 1 }, { n: 1 }],
  ])
  const late = 'a call did not return within 100ms'
  const ended = 'it ended itself (exit code 3)'
  t.same(reasonsIn(left.main), [ended, ended, late, undefined])
})
