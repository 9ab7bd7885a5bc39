import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'

/** Stops while events wait in a throttle, with the real daemon. */

const configOf = (throttle: string) => `
sources:
  app: { type: file, include: [app.log], decode: json }
processors:
  limit_app: { type: throttle, inputs: [app], window: 1 Seconds, ${throttle} }
destinations:
  out: { type: file, inputs: [limit_app], path: out.ndjson, encoding: raw }
`

const all = (to: number) => Array.from({ length: to }, (_, n) => n)

function numbersIn(folder: string): number[] {
  const path = join(folder, 'out.ndjson')
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : []
  return lines.map(line => JSON.parse(line).n)
}

t.test('a stop while events wait keeps what came before the first of them', async t => {
  const half = `
  half: { type: filter, inputs: [app], condition: if (.half equal true) }
  limit_app: { type: throttle, inputs: [half],`
  const cases = [
    { config: configOf('limit: 20, on_backlog: pace'), keeps: () => true, repeats: 0 },
    { config: configOf('limit: 20, over_limit: { wait: 1 Minutes }'), keeps: () => true, repeats: 0 },
    // Of the events that a filter leaves, only that they are in order is known: at most as many come again.
    {
      config: configOf('limit: 10, on_backlog: pace').replace('\n  limit_app: { type: throttle, inputs: [app],', half),
      keeps: (n: number) => n % 2 === 0,
      repeats: 30,
    },
  ]
  for (const { config, keeps, repeats } of cases) {
    const folder = testFolder(t, { 'app.log': '' })
    const first = await startDaemon(t, folder, config)
    await first.stop(t)
    for (let n = 0; n < 60; n++) appendFileSync(join(folder, 'app.log'), `{"n":${n},"half":${n % 2 === 0}}\n`)
    let passed = 0
    for (let run = 0; run < 9 && passed < all(60).filter(keeps).length; run++) {
      const daemon = await startDaemon(t, folder, config)
      await daemon.scrapedUntil(scrape => scrape.events('out').sent >= 10)
      await daemon.stop(t)
      const { size } = new Set(numbersIn(folder))
      t.ok(size > passed, 'each run comes further')
      passed = size
    }
    const numbers = numbersIn(folder)
    t.same(
      [...new Set(numbers)].sort((a, b) => a - b),
      all(60).filter(keeps),
      'nothing is lost',
    )
    t.ok(numbers.length - new Set(numbers).size <= repeats, `${numbers.length} lines`)
  }
})
