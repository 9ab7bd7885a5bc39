import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { type Io, UsageError, wholeNumber } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { beginning, wrap } from '../../daemon/process/wrap.js'
import { printableText } from '../../lib/printable.js'
import { shellWord } from '../../lib/shell-word.js'
import { validate } from '../check/validate.js'
import { readerOf } from '../quickstart/announce.js'
import { inspectMachine, type Log, logAt } from './machine.js'
import { configText, destinationOf, type Plan } from './plan.js'
import { preview } from './preview.js'

export interface InitOptions {
  readonly yes: boolean
  readonly output: string | undefined
  readonly root: string | undefined
  readonly read: string | undefined
  readonly send: string | undefined
  readonly 'key-file': string | undefined
  readonly limit: string | undefined
}

const COLUMNS = 80
const SYSTEM_STATE = '/var/lib/sluice'

/** Looks at this machine, asks, and writes a configuration. Resolves with the exit code. */
export async function init(given: InitOptions, io: Io): Promise<number> {
  const root = resolve(given.root ?? '/')
  const columns = io.stdout.columns || COLUMNS
  const say = (...lines: string[]) => io.stdout.write(`${lines.join('\n')}\n`)
  if (given.output !== undefined) freePath(given.output)
  const { logs: found, receivers, remarks } = inspectMachine(root, io.env.PATH ?? '')
  const dataDir = process.geteuid?.() === 0 ? SYSTEM_STATE : undefined
  const targets = [...receivers, `file=${dataDir ?? '.'}/delivered.ndjson`]
  const row = ({ id, about, doubt }: Log, i: number) =>
    beginning(printableText(`${i + 1}  ${id}: ${about}${doubt === undefined ? '' : ` (${doubt})`}`), columns - 2)
  const listed = found.length > 0 ? found.map((log, i) => `  ${row(log, i)}`) : ['  none that this user can read']
  say('Logs of this machine:', ...listed)
  const notes = remarks.flatMap(remark => wrap(`  - ${printableText(remark)}`, columns, '    '))
  if (notes.length > 0) say('', 'Not possible yet, and what to do today:', ...notes)
  say('', 'Receivers:', ...targets.map((target, i) => `  ${i + 1}  ${target}`), ...(given.yes ? [] : ['']))

  const answers = new Answers(given.yes, io)
  const { get } = answers
  let plan: Plan
  let output: string
  try {
    const proposed = found.flatMap(({ id, doubt }) => (doubt === undefined ? [id] : [])).join(',')
    const logs = await get('Read: numbers, names, or paths', given.read, proposed, text => logsOf(text, found, root))
    const destination = await get('Send to: a number, or TYPE=ADDRESS', given.send, targets[0]!, text =>
      destinationOf(targets[Number(text) - 1] ?? text),
    )
    const file = await get('File with the access key, if one is needed', given['key-file'], '', text => text)
    const limit = await get('Events per second of each app', given.limit, '100', text =>
      wholeNumber(text, 'limit', 'init'),
    )
    output = await get('Write to', given.output, 'sluice.yaml', freePath)
    plan = { logs, destination, limit, dataDir, keyFile: file === '' ? undefined : resolve(file) }
  } finally {
    answers.close()
  }
  writeFileSync(output, configText(plan), { flag: 'wx' })
  say('', `Wrote ${output}.`)
  // With --root, the receivers are those of another machine.
  const code = await validate([output], io.env, io, undefined, root === '/')
  if (code === EXIT.config) {
    rmSync(output)
    throw new Error(`removed ${output}, because of the errors above`)
  }
  const { program } = readerOf(io.env, process.argv[1] ?? '')
  say(
    '',
    ...(await preview(output, plan.logs, columns, io)),
    '',
    'Next:',
    `  ${program} run ${shellWord(output)}`,
    `  ${program} doctor ${shellWord(output)}`,
  )
  if (existsSync('/etc/sluice')) say(`or, as a service, copy it to /etc/sluice/sluice.yaml: systemctl restart sluice`)
  return code
}

/** The logs in a list of numbers, names and paths. Throws UsageError. */
function logsOf(text: string, found: readonly Log[], root: string): Log[] {
  const names = text.split(',').filter(Boolean)
  if (names.length === 0) throw new UsageError('read: name a log, as in --read "/srv/app/*.log"', 'init')
  return names.map(name => {
    const known = found.find(({ id }, i) => name === id || name === String(i + 1))
    const log = known ?? (name.startsWith('/') ? logAt(name, root) : undefined)
    if (log) return log
    throw new UsageError(`read: ${name} is not a log above, and not the path of files that this user can read`, 'init')
  })
}

/** The path of a file that does not exist. Throws UsageError. */
function freePath(path: string): string {
  if (existsSync(path)) throw new UsageError(`${path} exists; give the name of a new file with --output`, 'init')
  if (!existsSync(dirname(path))) throw new UsageError(`there is no folder ${dirname(path)}`, 'init')
  return path
}

/** Answers from options, from the proposals with --yes, or from the user. */
class Answers {
  readonly #isYes: boolean
  readonly #io: Io
  #lines: { readonly interface: ReturnType<typeof createInterface>; readonly next: AsyncIterator<string> } | undefined

  constructor(isYes: boolean, io: Io) {
    this.#isYes = isYes
    this.#io = io
  }

  /** `given`: the answer in an option. If `parse` throws a UsageError, the user is asked again. */
  readonly get = async <T>(
    question: string,
    given: string | undefined,
    proposal: string,
    parse: (text: string) => T,
  ): Promise<T> => {
    if (given !== undefined || this.#isYes) return parse(given ?? proposal)
    for (;;) {
      try {
        return parse((await this.#ask(`${question} [${proposal}]: `)) || proposal)
      } catch (error) {
        if (!(error instanceof UsageError)) throw error
        this.#io.stdout.write(`${error.message}\n`)
      }
    }
  }

  async #ask(prompt: string): Promise<string> {
    if (!this.#lines) {
      const { stdin, stdout } = this.#io
      const lines = createInterface({ input: stdin, output: stdout, terminal: Boolean(stdin.isTTY && stdout.isTTY) })
      lines.on('SIGINT', () => lines.close())
      this.#lines = { interface: lines, next: lines[Symbol.asyncIterator]() }
    }
    this.#lines.interface.setPrompt(prompt)
    this.#lines.interface.prompt()
    const { value, done } = await this.#lines.next.next()
    if (done) throw new Error('not all questions were answered, so nothing was written; --yes accepts the proposals')
    return String(value).trim()
  }

  close(): void {
    this.#lines?.interface.close()
  }
}
