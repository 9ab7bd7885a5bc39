import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { HOST, ownPort } from './address.js'
import { sluiceMain } from './checkout.js'
import { commandLines, type DocBlock, fileName, place } from './doc-blocks.js'
import { PATIENCE_MS, until } from './until.js'

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
    const limit = setTimeout(kill, PATIENCE_MS)
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

async function isReady(address: string): Promise<boolean> {
  const answer = await fetch(`http://${address}/readyz`).catch(() => undefined)
  await answer?.text()
  return answer?.ok === true
}

/** The text of a configuration, which may be a folder. */
function configText(path: string): string {
  if (!statSync(path).isDirectory()) return readFileSync(path, 'utf8')
  const texts = readdirSync(path).map(name => readFileSync(join(path, name), 'utf8'))
  return texts.join('')
}

/**
 * Writes the files that blocks have the names of into `folder`, and runs there the `sh` blocks of this kind, in order,
 * with HOST and ports of its own in place of the addresses that the page names. What a block prints has to be what the page shows after it.
 */
export async function runBlocks(
  t: Test,
  folder: string,
  blocks: readonly DocBlock[],
  kind: 'run' | 'steps',
): Promise<void> {
  mkdirSync(join(folder, '.bin'))
  writeFileSync(join(folder, '.bin/sluice'), `#!/bin/sh\nexec ${process.execPath} ${sluiceMain} "$@"\n`)
  chmodSync(join(folder, '.bin/sluice'), 0o755)
  const ports = new Map<string, string>()
  const whole = blocks.map(({ text }) => text).join('')
  for (const [address] of whole.matchAll(/127\.0\.0\.1:\d{4,5}\b/g))
    if (!ports.has(address)) ports.set(address, `${HOST}:${await ownPort()}`)
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
      const [, address = ''] = /^metrics: \{ listen: ([\d.:]+)/m.exec(configText(join(folder, file))) ?? []
      await until(`${place(block)}: readiness at ${address}`, () => isReady(address))
    }
    return { code: 0, stdout, stderr: '', failed: '' }
  }
  for (const [i, block] of blocks.entries()) {
    const file = fileName(block)
    if (file !== undefined) {
      mkdirSync(join(folder, file, '..'), { recursive: true })
      writeFileSync(join(folder, file), moved(block.text))
    }
    if (block.language !== 'sh' || block.words[0] !== kind) continue
    const next = blocks[i + 1]
    const shown = next?.language === 'text' && next.words[0] === 'output' ? next : undefined
    let last: Awaited<ReturnType<typeof run>> | undefined
    const isRight = async () => {
      last = await run(block)
      return last.code === 0 && (!shown || fits(last.stdout, moved(shown.text)))
    }
    // What a command prints may take a moment to become true.
    const right = shown
      ? await until(`${place(block)}: the output of the page`, isRight, { every: 200, show: () => last })
      : await isRight()
    t.ok(right, `${place(block)}: ${last!.failed || 'works, and prints what it should'}`)
    if (!right) t.comment(last!.stdout, last!.stderr)
  }
}
