import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { checkout } from '../support/checkout.js'
import { type DocBlock, docBlocks, fileName } from '../support/doc-blocks.js'
import { runBlocks } from '../support/doc-run.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'

/** The five steps of `docs/throttling.md` to roll out a limit, as they are written there, with a real daemon. */

const PAGE = 'docs/throttling.md'
const TITLE = '## How to roll out a limit in five steps'
const STEPS = ['Simulate', 'Shadow', 'Summary', 'Live', 'Alert']
const WRITE_EVERY_MS = 100

/** The steps by their titles, the way to them first, with the blocks of each. */
function steps(): Map<string, DocBlock[]> {
  const lines = readFileSync(join(checkout, PAGE), 'utf8').split('\n')
  const start = lines.indexOf(TITLE)
  const end = lines.findIndex((line, i) => i > start && line.startsWith('## '))
  const found = new Map<string, DocBlock[]>([['', []]])
  const blocks = docBlocks(PAGE)
  let step = ''
  for (const [i, text] of lines.slice(start, end < 0 ? undefined : end).entries()) {
    const [, title] = /^### \d\. (.*)$/.exec(text) ?? []
    if (title !== undefined) found.set((step = title), [])
    const block = blocks.find(({ line }) => line === start + i + 1)
    if (block) found.get(step)!.push(block)
  }
  return found
}

let written = 0
const line = (time: string, app: string) =>
  `${JSON.stringify({ time, app, level: ++written % 100 ? 'info' : 'error', message: `request ${written} done` })}\n`

/** Ten minutes of three apps: one writes more for a minute, and another one far too much for half a minute. */
function yesterday(): string {
  const start = Date.UTC(2026, 0, 30, 8)
  let text = ''
  for (let second = 0; second < 600; second++) {
    const cart = second >= 300 && second < 330 ? 400 : 3
    const search = second >= 100 && second < 160 ? 30 : 6
    const time = new Date(start + second * 1000).toISOString()
    for (const [app, rate] of Object.entries({ cart, search, checkout: 2 }))
      for (let i = 0; i < rate; i++) text += line(time, app)
  }
  return text
}

/** What the apps write in a moment: one of them 200 lines a second. */
function now(): string {
  const time = new Date().toISOString()
  return line(time, 'search') + line(time, 'checkout') + Array.from({ length: 20 }, () => line(time, 'cart')).join('')
}

const throttleOf = (block: DocBlock, id: string) =>
  (parse(block.text.slice(block.text.indexOf('processors:'))) as { processors: Record<string, object> }).processors[id]!

t.test('the steps are the five, and each has commands', async t => {
  const found = steps()
  t.same([...found.keys()], ['', ...STEPS])
  for (const [title, blocks] of found)
    t.ok(
      blocks.some(({ language, words }) => language === 'sh' && words[0] === 'steps'),
      title,
    )
})

t.test('what the steps paste is what the simulation prints', async t => {
  const found = steps()
  const printed = throttleOf(found.get('Simulate')!.findLast(({ language }) => language === 'text')!, 'limit_app')
  const pasted = (step: string, file: string, id: string) =>
    throttleOf(found.get(step)!.find(block => fileName(block) === file)!, id)
  t.same(pasted('Shadow', 'sluice.d/try.yaml', 'try_app'), { ...printed, mode: 'shadow' })
  t.match(pasted('Summary', 'sluice.d/try.yaml', 'try_app'), { ...printed, mode: 'shadow', summary: Object })
  t.match(pasted('Live', 'sluice.d/limit.yaml', 'limit_app'), { ...printed, summary: Object })
})

t.test('the five steps, with the traffic of a server', async t => {
  for (const program of ['curl', 'jq', 'promtool', 'prometheus']) if (!needs(t, program)) return
  const folder = testFolder(t, { log: { 'app.log.1': yesterday(), 'app.log': '' } })
  // Not before the daemon runs: it would read all of it in one window.
  const write = () =>
    existsSync(join(folder, 'state/sluice.sock')) && appendFileSync(join(folder, 'log/app.log'), now())
  const writing = setInterval(write, WRITE_EVERY_MS)
  t.teardown(() => clearInterval(writing))
  await runBlocks(t, folder, [...steps().values()].flat(), 'steps')
  const log = readFileSync(join(folder, 'sluice.log'), 'utf8').trimEnd().split('\n')
  const last = JSON.parse(log.at(-1)!) as { msg: string; received: number; undelivered: number }
  t.match(last, { msg: 'ended', undelivered: 0, discarded: { limit_app: { throttled: Number } } })
  t.notMatch(log.join('\n'), /SLUICE_CONSERVATION/)
})
