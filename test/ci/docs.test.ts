import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commands } from '../../src/cli/commands.js'
import { components } from '../../src/components/list.js'
import { findCommand, readCall } from '../../src/daemon/process/command-line.js'
import { groupOf } from '../../src/daemon/process/groups.js'
import { parseConfig } from '../../src/engine/config/load.js'
import { checkout } from '../support/checkout.js'
import {
  commandLines,
  type DocBlock,
  docBlocks,
  docPages,
  place,
  quotedFile,
  sluiceCalls,
} from '../support/doc-blocks.js'
import { runBlocks } from '../support/doc-run.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'

// Commands wait for daemons most of the time.
t.jobs = 2

const TO_LOOK_AT = ['condition', 'text', 'json', 'js', 'ts', 'ini', 'nginx']
const SECTIONS = ['sources', 'processors', 'destinations']

/** Variables that configurations of the pages use. */
const VARIABLES = {
  'secret:upstream': 'key',
  SLUICE_ACCESS_KEY: 'x',
  SLUICE_URL: 'http://127.0.0.1:8080',
  REGION: 'x',
}

/** What the commands of a page find beside the blocks of it that have a name. */
const APP_LOG = `${JSON.stringify({ app: 'a', host: 'x', timestamp: '2026-01-31T12:00:00Z' })}\n`.repeat(20)
const FILES: Record<string, Record<string, string>> = {
  'README.md': { 'app.log': APP_LOG },
  'docs/service.md': { 'pipeline.yaml': 'destinations: { out: { type: blackhole, inputs: [ingest] } }\n' },
}

const pages = docPages().map(page => ({ page, blocks: docBlocks(page) }))

/** The words behind the language without `file=NAME` and `from=PATH`. */
const wordsOf = ({ words }: DocBlock) => words.filter(word => !/^(file|from)=/.test(word))

function checkYaml(t: Test, block: DocBlock, promtool: string | undefined): void {
  const words = wordsOf(block)
  const [kind, section, ...rest] = words
  const check = { prometheus: ['config', '--syntax-only'], rules: ['rules'] }[kind ?? '']
  if (check && section === undefined) {
    const file = join(testFolder(t), 'prometheus.yml')
    writeFileSync(file, block.text)
    const checked = promtool && spawnSync(promtool, ['check', ...check, file], { encoding: 'utf8' })
    if (checked) t.equal(checked.status, 0, `${place(block)}\n${checked.stderr}`)
    return
  }
  const known = kind === undefined || (kind === 'part' && (section === undefined || SECTIONS.includes(section)))
  t.ok(known && rest.length === 0, `${place(block)}: "yaml ${words.join(' ')}" is known`)
  const quoted = quotedFile(block)
  if (quoted !== undefined)
    t.ok(
      `\n${readFileSync(join(checkout, quoted), 'utf8')}`.includes(`\n${block.text}`),
      `${place(block)}: is in ${quoted}`,
    )
  const text = section === undefined ? block.text : `${section}:\n${block.text}`
  const options = { env: VARIABLES, components, serviceAlone: true, partial: kind === 'part' }
  try {
    const { warnings } = parseConfig(text, place(block), options)
    t.same(warnings, [], `${place(block)}: no warnings`)
  } catch (error) {
    t.fail(`${place(block)}: ${error}`)
  }
}

function checkCommands(t: Test, block: DocBlock): void {
  const [how = '', ...reason] = block.words
  const known = how === 'norun' ? reason.length > 0 : ['run', 'steps', 'tree'].includes(how) && reason.length === 0
  t.ok(known, `${place(block)}: "sh ${block.words.join(' ')}" is known`)
  for (const line of commandLines(block.text)) checkCalls(t, block, line)
}

/** The real reading of the command line has to understand every call of sluice. */
function checkCalls(t: Test, block: DocBlock, line: string): void {
  for (const argv of sluiceCalls(line)) {
    if (argv.length === 1 && ['--help', '--version', '-h', '-V'].includes(argv[0]!)) continue
    if (argv.length === 2 && argv[0] === 'help' && groupOf(argv[1])) continue
    try {
      const [command, args] = findCommand(argv[0] === 'help' ? argv.slice(1) : argv, commands)
      if (argv[0] !== 'help' && !args.includes('--help')) readCall(command, args)
    } catch (error) {
      t.fail(`${place(block)}: ${line}: ${(error as Error).message}`)
    }
  }
}

t.test('every configuration holds, and every command can be understood', async t => {
  const promtool = needs(t, 'promtool')
  t.ok(pages.length > 1)
  for (const { page, blocks } of pages) {
    for (const block of blocks) {
      if (block.language === 'yaml') checkYaml(t, block, promtool)
      else if (block.language === 'sh') checkCommands(t, block)
      else if (!TO_LOOK_AT.includes(block.language)) t.fail(`${place(block)}: "${block.language}" is not known`)
      else if (wordsOf(block).length > 0 && `${block.language} ${block.words}` !== 'text output')
        t.fail(`${place(block)}: "${block.language} ${block.words.join(' ')}" is not known`)
    }
    t.pass(page)
  }
})

t.test('every recipe for a throttle has tests, and is in a page about throttles', async t => {
  const recipes = readdirSync(join(checkout, 'config/examples')).filter(name => name.startsWith('throttle-'))
  const about = pages.filter(({ page }) => page.startsWith('docs/thrott'))
  const quoted = about.flatMap(({ blocks }) => blocks.map(quotedFile))
  t.ok(recipes.length > 3)
  for (const name of recipes) {
    const path = `config/examples/${name}`
    t.match(readFileSync(join(checkout, path), 'utf8'), /^tests:/m, path)
    t.ok(quoted.includes(path), `${path} is quoted`)
  }
})

t.test('the version that pages speak of is that of the package', async t => {
  const { version } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { version: string }
  for (const { page } of pages) {
    const named = readFileSync(join(checkout, page), 'utf8').matchAll(/\bsluice[-_](\d+\.\d+\.\d+)/g)
    for (const [text, found] of named) if (found !== version) t.fail(`${page}: ${text}, and the version is ${version}`)
  }
})

t.test('units and pages install a packed file, never a name that anybody could publish', async t => {
  const units = readdirSync(join(checkout, 'systemd')).map(name => `systemd/${name}`)
  const { name } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { name: string }
  const own = new RegExp(
    `\\b(npm (install|i|add|exec)|npx|pnpm|yarn)\\b[^#\\n]* (sluice|${name})(@\\S*)?\\s*(#|$)`,
    'm',
  )
  for (const path of [...pages.map(({ page }) => page), ...units])
    t.notMatch(readFileSync(join(checkout, path), 'utf8'), own, path)
})

t.test('commands within the text exist', async t => {
  for (const { page } of pages) {
    const text = readFileSync(join(checkout, page), 'utf8').replace(/^```.*?^```$/gms, '')
    for (const [, span = ''] of text.matchAll(/`(sluice [^`]+)`/g)) {
      for (const call of sluiceCalls(span)) {
        const argv = call[0] === 'help' ? call.slice(1) : call
        const found = commands.filter(({ name }) => name === argv.slice(0, name.split(' ').length).join(' '))[0]
        const family =
          (call[0] === 'help' && groupOf(argv[0])) || commands.some(({ name }) => name.startsWith(`${argv.join(' ')} `))
        if (!found && !family) t.fail(`${page}: \`${span}\`: there is no such command`)
        for (const word of argv) {
          const [, option] = /^--([a-z-]+)/.exec(word) ?? []
          if (option && found && !Object.hasOwn(found.options, option)) t.fail(`${page}: \`${span}\`: no such option`)
        }
      }
    }
    t.pass(page)
  }
})

for (const { page, blocks } of pages) {
  if (!blocks.some(({ language, words }) => language === 'sh' && words[0] === 'run')) continue
  t.test(`the commands of ${page}`, async t => {
    if (needs(t, 'curl') && needs(t, 'jq')) await runBlocks(t, testFolder(t, FILES[page]), blocks, 'run')
  })
}
