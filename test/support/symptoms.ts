import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { bound } from './bound.js'
import { checkout, sluiceMain } from './checkout.js'
import { command } from './cli.js'

/** Ids and paths of a page, and what they are on a machine. */
export type Names = Readonly<Record<string, string>>

/** A page of symptoms, and machines on which they are made. */

/** Commands for the shell, and what they print when the symptom is there: all lines of it are among what is printed. */
export interface Look {
  readonly line: number
  readonly commands: string
  readonly shown: string
}

/**
 * The cases of a page by their headings (`###`): every `text` there is what the `sh` before it prints, or the first `sh`
 * of the page where the case has none.
 */
export function symptomsOf(page: string): Map<string, Look[]> {
  const cases = new Map<string, Look[]>()
  let looks: Look[] | undefined
  let fence: { line: number; info: string; text: string } | undefined
  let commands: string | undefined
  let otherwise: string | undefined
  for (const [i, line] of readFileSync(join(checkout, page), 'utf8').split('\n').entries()) {
    const [, info] = /^```(.*)$/.exec(line) ?? []
    if (fence && info === undefined) fence.text += `${line}\n`
    else if (info !== undefined && !fence) fence = { line: i + 1, info, text: '' }
    else if (fence) {
      if (fence.info === 'text') {
        const printedBy = commands ?? otherwise
        if (!looks || printedBy === undefined)
          throw new Error(`${page}:${fence.line}: which command of a case prints this?`)
        looks.push({ line: fence.line, commands: printedBy, shown: fence.text })
      }
      commands = fence.info.startsWith('sh ') ? fence.text : undefined
      otherwise ??= commands
      fence = undefined
    } else if (/^##+ /.test(line)) {
      commands = undefined
      looks = undefined
      if (!line.startsWith('### ')) continue
      looks = []
      cases.set(line.slice(4), looks)
    }
  }
  return cases
}

/**
 * Which line of `shown` is not in `printed`, behind the line before. It may be a part of one that is printed; … stands for
 * anything, and what is indented goes on from the line before.
 */
export function missingLine(printed: string, shown: string): string | undefined {
  const linesOf = (text: string) => text.replace(/\n {2,}/g, ' ').split('\n')
  const lines = linesOf(printed)
  return linesOf(shown)
    .filter(line => line.trim() !== '')
    .find(line => {
      const pattern = patternOf(line)
      const at = lines.findIndex(other => pattern.test(other))
      lines.splice(0, at + 1)
      return at === -1
    })
}

function patternOf(line: string): RegExp {
  const words = line.trim().split(/\s+/)
  return new RegExp(words.map(word => escaped(word).replaceAll('…', '.*')).join('\\s+'))
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** One call of a command that ends by itself: it needs neither a shell nor a process of its own. */
const ALONE = /^sluice ((?:status|top|validate|resend|fleet|api)(?: [\w./:-]+)*)\n$/

/** A machine as the page supposes it: `/etc/sluice`, `/var/log` and `/var/lib/sluice` are in a folder of its own. */
export class Machine {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  /** What journalctl shows. */
  journal: () => string = () => ''
  /** Addresses of the page, and what they are here. */
  readonly addresses = new Map<string, string>()
  /** Variables for the commands. */
  env: NodeJS.ProcessEnv = {}
  /** What ends what goes on here. */
  readonly onEnd: (() => void)[] = []
  /** What commands printed last, as it was. */
  readonly #printed = new Map<string, string>()
  readonly #places: readonly (readonly [string, string])[]

  constructor(t: Test) {
    t.teardown(() => {
      for (const end of this.onEnd) end()
      rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    })
    const at = (name: string) => join(this.folder, name)
    this.#places = [
      ['/etc/sluice/sluice.yaml', at('sluice.yaml')],
      ['/etc/sluice', at('etc')],
      ['/var/lib/sluice', at('state')],
      ['/var/log', at('log')],
    ]
    for (const name of ['bin', 'etc', 'state', 'log/app']) mkdirSync(at(name), { recursive: true })
    this.#program('sluice', `exec '${process.execPath}' '${sluiceMain}' "$@"`)
    this.#program('journalctl', `exec cat '${at('journal')}'`)
  }

  #program(name: string, text: string): void {
    writeFileSync(join(this.folder, 'bin', name), `#!/bin/sh\n${text}\n`)
    chmodSync(join(this.folder, 'bin', name), 0o755)
  }

  /** Text of the page with the paths and ports of this machine. */
  here(text: string): string {
    return [...this.#places, ...this.addresses].reduce((text, [there, here]) => replaced(text, there, here), text)
  }

  /** The other way round. */
  told(text: string): string {
    return [...this.#places, ...this.addresses].reduce((text, [there, here]) => replaced(text, here, there), text)
  }

  /** What these commands printed when they were called last, unless something has changed. */
  printedBefore(commands: string, names: Names): string | undefined {
    const printed = this.#printed.get(this.#callOf(commands, names))
    return printed === undefined ? undefined : backwards(printed, names)
  }

  changed(): void {
    this.#printed.clear()
  }

  #callOf(commands: string, names: Names): string {
    return this.here(renamed(commands, Object.entries(names)))
  }

  /** What these commands print, both streams. `names`: ids of the page, and what they are here. */
  async run(commands: string, names: Names): Promise<string> {
    writeFileSync(join(this.folder, 'journal'), this.journal())
    const text = this.#callOf(commands, names)
    const printed = this.told(await this.#run(text))
    this.#printed.set(text, printed)
    return backwards(printed, names)
  }

  async #run(text: string): Promise<string> {
    const env = {
      PATH: `${join(this.folder, 'bin')}:${process.env.PATH}`,
      SLUICE_SOCKET: join(this.folder, 'state/sluice.sock'),
      HOME: this.folder,
      TERM: 'dumb',
      ...this.env,
    }
    const [, args] = ALONE.exec(text) ?? []
    if (args !== undefined) {
      const { stdout, stderr } = await command(args.split(' '), { env })
      return stdout + stderr
    }
    const child = spawn(...bound('bash', ['-c', text]), { cwd: this.folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let printed = ''
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (printed += text))
    await once(child, 'close')
    return printed
  }
}

/** Port 9 is not a part of port 9598. */
function replaced(text: string, from: string, to: string): string {
  return text.replace(new RegExp(`${escaped(from)}(?!\\d)`, 'g'), () => to)
}

function backwards(printed: string, names: Names): string {
  return renamed(
    printed,
    Object.entries(names).map(([there, here]) => [here, there]),
  )
}

/** Whole names only, and neither parts of paths nor fields. */
function renamed(text: string, names: readonly (readonly string[])[]): string {
  return names.reduce((text, [from = '', to = '']) => {
    return text.replace(new RegExp(`(?<![\\w./])${escaped(from)}(?!\\w)`, 'g'), to)
  }, text)
}
