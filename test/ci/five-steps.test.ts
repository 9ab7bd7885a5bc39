import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { checkout } from '../support/checkout.js'
import { type DocBlock, docBlocks, fileName } from '../support/doc-blocks.js'
import { runBlocks } from '../support/doc-run.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'

/** The five steps of `docs/throttle-rollout.md` to roll out a limit, as they are written there, with a real daemon. */

const PAGE = 'docs/throttle-rollout.md'
const STEPS = ['Simulate', 'Observe', 'Compare', 'Enforce', 'Watch']

/** The blocks of each step by its title; those before the first step have the title ''. */
function steps(): Map<string, DocBlock[]> {
  const lines = readFileSync(join(checkout, PAGE), 'utf8').split('\n')
  const found = new Map<string, DocBlock[]>([['', []]])
  const blocks = docBlocks(PAGE)
  let step = ''
  for (const [i, text] of lines.entries()) {
    const [, title] = /^## \d\. (.*)$/.exec(text) ?? []
    if (title !== undefined) found.set((step = title), [])
    const block = blocks.find(({ line }) => line === i + 1)
    if (block) found.get(step)!.push(block)
  }
  return found
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
  t.same(pasted('Observe', 'sluice.d/try.yaml', 'try_app'), { ...printed, mode: 'shadow' })
  t.match(pasted('Compare', 'sluice.d/try.yaml', 'try_app'), { ...printed, mode: 'shadow', summary: Object })
  t.match(pasted('Enforce', 'sluice.d/limit.yaml', 'limit_app'), { ...printed, summary: Object })
})

t.test('the five steps, with the traffic of a server', async t => {
  for (const program of ['curl', 'jq', 'promtool', 'prometheus']) if (!needs(t, program)) return
  const folder = testFolder(t)
  await runBlocks(t, folder, [...steps().values()].flat(), 'steps')
  const log = readFileSync(join(folder, 'sluice.log'), 'utf8').trimEnd().split('\n')
  const last = JSON.parse(log.at(-1)!) as { msg: string; received: number; undelivered: number }
  t.match(last, { msg: 'ended', undelivered: 0, discarded: { limit_app: { throttled: Number } } })
  t.notMatch(log.join('\n'), /SLUICE_CONSERVATION/)
})
