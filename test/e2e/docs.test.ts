import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { commands } from '../../src/cli/commands.js'
import { components } from '../../src/components.js'
import { parseConfig } from '../../src/config/load.js'
import { findCommand, readCall } from '../../src/terminal/command-line.js'
import { checkout, sluiceMain } from '../support/checkout.js'
import { commandLines, type DocBlock, docBlocks, docPages, sluiceCalls } from '../support/doc-blocks.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'

const COMMAND_MS = 60_000
/** What a page says that a command prints may take a moment to become true. */
const OUTPUT_MS = 30_000
const READY_MS = 30_000
const TO_LOOK_AT = ['text', 'json', 'js', 'ts', 'ini']
const SECTIONS = ['sources', 'processors', 'destinations']

/** Variables that configurations of the pages use. */
const VARIABLES = {
  'secret:upstream': 'key',
  SLUICE_ACCESS_KEY: 'x',
  SLUICE_URL: 'http://127.0.0.1:8080/v3/ingest/abc',
  REGION: 'x',
}

/** What the commands of a page find beside the blocks of it that have a name. */
const APP_LOG = `${JSON.stringify({ app: 'a', host: 'x', timestamp: '2026-01-31T12:00:00Z' })}\n`.repeat(20)
const FILES: Record<string, Record<string, string>> = {
  'README.md': { 'app.log': APP_LOG },
  'docs/service.md': { 'pipeline.yaml': 'destinations: { out: { type: blackhole, inputs: [ingest] } }\n' },
  'docs/throttling.md': {
    'sluice.yaml': `sources: { app_logs: { type: stdin, decode: json } }
processors: { limit_app: { type: throttle, inputs: [app_logs], limit: 5, window: 1s, key_field: .app } }
destinations: { out: { type: stdout, inputs: [limit_app] } }
`,
    'app.log': APP_LOG,
  },
}

const place = ({ page, line }: DocBlock) => `${page}:${line}`
const pages = docPages().map(page => ({ page, blocks: docBlocks(page) }))

/** The words behind the language without `file=NAME`, and that name. */
function wordsOf({ words }: DocBlock): { words: string[]; file: string | undefined } {
  const file = words.find(word => word.startsWith('file='))?.slice('file='.length)
  return { words: words.filter(word => !word.startsWith('file=')), file }
}

function checkYaml(t: Test, block: DocBlock, promtool: string | undefined): void {
  const { words } = wordsOf(block)
  const [kind, section, ...rest] = words
  if (kind === 'prometheus' && section === undefined) {
    const file = join(testFolder(t), 'prometheus.yml')
    writeFileSync(file, block.text)
    const checked = promtool && spawnSync(promtool, ['check', 'config', '--syntax-only', file], { encoding: 'utf8' })
    if (checked) t.equal(checked.status, 0, `${place(block)}\n${checked.stderr}`)
    return
  }
  const known = kind === undefined || (kind === 'part' && (section === undefined || SECTIONS.includes(section)))
  t.ok(known && rest.length === 0, `${place(block)}: "yaml ${words.join(' ')}" is known`)
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
  const known = how === 'norun' ? reason.length > 0 : ['run', 'tree'].includes(how) && reason.length === 0
  t.ok(known, `${place(block)}: "sh ${block.words.join(' ')}" is known`)
  for (const line of commandLines(block.text)) checkCalls(t, block, line)
}

/** The real reading of the command line has to understand every call of sluice. */
function checkCalls(t: Test, block: DocBlock, line: string): void {
  for (const argv of sluiceCalls(line)) {
    if (argv.length === 1 && ['--help', '--version', '-h', '-V'].includes(argv[0]!)) continue
    try {
      const [command, args] = findCommand(argv[0] === 'help' ? argv.slice(1) : argv, commands)
      if (argv[0] !== 'help' && !args.includes('--help')) readCall(command, args)
    } catch (error) {
      t.fail(`${place(block)}: ${line}: ${(error as Error).message}`)
    }
  }
}

/** Below the ports that the kernel gives to whoever asks for any. */
let nextPort = 20_000 + (process.pid % 8000)
async function freePort(): Promise<number> {
  for (;;) {
    const port = nextPort++
    const server = createServer()
    const free = await new Promise<boolean>(resolve => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    await new Promise(resolve => server.close(resolve))
    if (free) return port
  }
}

interface Said {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** One bash for all commands of a page, since they leave variables and background processes behind. */
function startShell(t: Test, folder: string): (line: string) => Promise<Said> {
  const env = { PATH: `${join(folder, '.bin')}:${process.env.PATH}`, HOME: folder, NO_COLOR: '1', TERM: 'dumb' }
  const bash = spawn('bash', ['--norc', '--noprofile'], {
    cwd: folder,
    env,
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const gone = new Promise(resolve => bash.once('close', resolve))
  const kill = () => {
    try {
      process.kill(-bash.pid!, 'SIGKILL')
    } catch {
      // It has ended, and what it started too.
    }
  }
  process.once('exit', kill)
  t.teardown(async () => {
    kill()
    process.removeListener('exit', kill)
    await gone
  })
  const waiting: ((code: number) => void)[] = []
  createInterface({ input: bash.stdout }).on('line', line => waiting.shift()?.(Number(line)))
  // Should this process be killed, the shell takes what runs in the background with it.
  bash.stdin.write("trap 'kill 0' EXIT\n")
  const path = (name: string) => join(folder, '.bin', name)
  return async line => {
    const limit = setTimeout(kill, COMMAND_MS)
    const code = new Promise<number>(resolve => waiting.push(resolve))
    bash.stdin.write(`{ ${line}\n} >${path('out')} 2>${path('err')} </dev/null\necho $?\n`)
    const ended = await Promise.race([code, gone.then(() => -1)])
    clearTimeout(limit)
    return { code: ended, stdout: readFileSync(path('out'), 'utf8'), stderr: readFileSync(path('err'), 'utf8') }
  }
}

/** Whether what was printed fits a page: … stands for anything, and any white space for any other. */
function fits(printed: string, shown: string): boolean {
  const pattern = shown
    .trim()
    .split(/\s+/)
    .map(word =>
      word
        .split('…')
        .map(text => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
        .join('.*'),
    )
  return new RegExp(`^${pattern.join('\\s+')}$`, 's').test(printed.trim())
}

async function untilReady(address: string): Promise<boolean> {
  for (const end = performance.now() + READY_MS; performance.now() < end; ) {
    const ready = await fetch(`http://${address}/readyz`).catch(() => undefined)
    await ready?.text()
    if (ready?.ok) return true
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  return false
}

/** Runs the commands of a page in order, with other ports than those it names. */
async function runPage(t: Test, page: string, blocks: readonly DocBlock[]): Promise<void> {
  const folder = testFolder(t, { '.bin': {}, ...FILES[page] })
  writeFileSync(join(folder, '.bin/sluice'), `#!/bin/sh\nexec ${process.execPath} ${sluiceMain} "$@"\n`)
  chmodSync(join(folder, '.bin/sluice'), 0o755)
  const ports = new Map<string, string>()
  const whole = blocks.map(({ text }) => text).join('')
  for (const [address] of whole.matchAll(/127\.0\.0\.1:\d{4,5}\b/g))
    if (!ports.has(address)) ports.set(address, `127.0.0.1:${await freePort()}`)
  const moved = (text: string) => text.replace(/127\.0\.0\.1:\d{4,5}\b/g, address => ports.get(address) ?? address)

  const shell = startShell(t, folder)
  let id = ''
  const run = async (block: DocBlock): Promise<Said & { failed: string }> => {
    let stdout = ''
    for (const line of commandLines(block.text)) {
      const command = moved(line).replace(/(?<= )ID(?= |$)/g, id)
      const said = await shell(command)
      stdout += said.stdout
      if (said.code !== 0) return { ...said, stdout, failed: command }
      id = /"id": ?"(\w+)"/.exec(said.stdout)?.[1] ?? id
      const [, file] = /^sluice (?:run|serve) .*--config (\S+).*&$/.exec(line) ?? []
      if (file === undefined) continue
      const [, address = ''] = /^metrics: \{ listen: ([\d.:]+)/m.exec(readFileSync(join(folder, file), 'utf8')) ?? []
      t.ok(await untilReady(address), `${place(block)}: is ready`)
    }
    return { code: 0, stdout, stderr: '', failed: '' }
  }
  for (const [i, block] of blocks.entries()) {
    const { file } = wordsOf(block)
    if (file !== undefined) {
      mkdirSync(join(folder, file, '..'), { recursive: true })
      writeFileSync(join(folder, file), moved(block.text))
    }
    if (block.language !== 'sh' || block.words[0] !== 'run') continue
    const next = blocks[i + 1]
    const shown = next?.language === 'text' && next.words[0] === 'output' ? next : undefined
    for (const end = performance.now() + OUTPUT_MS; ; await new Promise(resolve => setTimeout(resolve, 200))) {
      const { code, stdout, stderr, failed } = await run(block)
      const right = code === 0 && (!shown || fits(stdout, moved(shown.text)))
      if (!right && shown && performance.now() < end) continue
      t.ok(right, `${place(block)}: ${failed || 'works, and prints what it should'}`)
      if (!right) t.comment(stdout, stderr)
      break
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
      else if (wordsOf(block).words.length > 0 && `${block.language} ${block.words}` !== 'text output')
        t.fail(`${place(block)}: "${block.language} ${block.words.join(' ')}" is not known`)
    }
    t.pass(page)
  }
})

t.test('the version that pages speak of is that of the package', async t => {
  const { version } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { version: string }
  for (const { page } of pages) {
    const named = readFileSync(join(checkout, page), 'utf8').matchAll(/\bsluice[-_](\d+\.\d+\.\d+)/g)
    for (const [text, found] of named) if (found !== version) t.fail(`${page}: ${text}, and the version is ${version}`)
  }
})

t.test('commands within the text exist', async t => {
  for (const { page } of pages) {
    const text = readFileSync(join(checkout, page), 'utf8').replace(/^```.*?^```$/gms, '')
    for (const [, span = ''] of text.matchAll(/`(sluice [^`]+)`/g)) {
      for (const argv of sluiceCalls(span)) {
        const found = commands.filter(({ name }) => name === argv.slice(0, name.split(' ').length).join(' '))[0]
        const family = commands.some(({ name }) => name.startsWith(`${argv.join(' ')} `))
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
    if (needs(t, 'curl') && needs(t, 'jq')) await runPage(t, page, blocks)
  })
}
