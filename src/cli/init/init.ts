import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { components } from '../../components/list.js'
import { ConfigError } from '../../core/errors.js'
import { type Io, UsageError, wholeNumber } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { beginning, wrap } from '../../daemon/process/wrap.js'
import { loadConfig } from '../../engine/config/load.js'
import { findRepeats } from '../../engine/run/state/objections.js'
import { printable } from '../../lib/printable.js'
import { shellWord } from '../../lib/shell-word.js'
import { tried, validate } from '../check/validate.js'
import { readerOf } from '../quickstart/announce.js'
import { type FoundLog, Machine } from './machine.js'
import { type ConfigPlan, configText, destinationOf } from './plan.js'
import { type Obey, preview } from './preview.js'

type Flag = 'output' | 'root' | 'read' | 'send' | 'key-file' | 'limit'
export type InitFlags = { readonly yes: boolean } & { readonly [F in Flag]: string | undefined }

const COLUMNS = 80
const SYSTEM_STATE = '/var/lib/sluice'

/** Looks at this machine, asks, and writes a configuration. Resolves with the exit code. */
export async function initConfig(given: InitFlags, io: Io, obey: Obey): Promise<number> {
  if (given.output !== undefined) freePath(given.output)
  const root = resolve(given.root ?? '/')
  const columns = io.stdout.columns || COLUMNS
  const say = (...lines: readonly string[]) =>
    io.stdout.write(lines.map(line => `${beginning(printable(line), columns)}\n`).join(''))
  const machine = new Machine(root)
  const logs = [...machine.search(io.env.PATH)]
  const dataDir = process.geteuid?.() === 0 ? SYSTEM_STATE : undefined
  const targets = [...machine.receivers, `file=${dataDir ?? '.'}/delivered.ndjson`]
  const rows = logs.map(({ id, about, doubt }) => `${id}: ${about}${doubt ? ` (${doubt})` : ''}`)
  say('Logs of this machine:', ...(rows.length > 0 ? numbered(rows) : ['  none that this user can read']), '')
  const notes = machine.remarks.flatMap(remark => wrap(`  - ${printable(remark)}`, columns, '    '))
  if (notes.length > 0) say('Not possible yet, and what to do today:', ...notes, '')
  say('Receivers:', ...numbered(targets), '')

  const proposed = logs.flatMap(({ id, doubt }) => (doubt ? [] : [id])).join(',')
  const { ask, close } = questions(given, io)
  const read = await ask('read', 'Read: numbers, names, or paths', proposed, text => logsOf(text, machine))
  const destination = await ask('send', 'Send to: a number, or TYPE=ADDRESS', targets[0]!, text =>
    destinationOf(targets[Number(text) - 1] ?? text),
  )
  const takesKey = given['key-file'] !== undefined || !/^(file|blackhole)$/.test(String(destination.type))
  const question = 'File with the access key, if one is needed'
  const keyFile = takesKey ? await ask('key-file', question, '', text => text && resolve(text)) : ''
  const limit = await ask('limit', 'Events per second of each app', '100', text => wholeNumber(text, 'limit', 'init'))
  const plan: ConfigPlan = { logs: read, destination, keyFile, limit, dataDir }
  const output = await ask('output', 'Write to', 'sluice.yaml', freePath)
  close()
  writeFileSync(output, configText(plan), { flag: 'wx' })
  // Such as the source of the example that the Debian package starts. The positions of its source are taken over.
  const config = tried(() => loadConfig(output, { env: io.env, components }))
  const repeats = config instanceof ConfigError || root !== '/' ? [] : await findRepeats(config)
  if (repeats.length > 0) writeFileSync(output, configText({ ...plan, repeats }))
  io.stdout.write(`Wrote ${printable(output)}.\n`)
  // With --root, the receivers are those of another machine.
  const code = await validate([output], io.env, io, undefined, root === '/')
  if (code === EXIT.config) {
    rmSync(output)
    throw new Error(`removed ${output}, because of the errors above`)
  }
  say('', ...(await preview(output, plan, columns, io, obey)), '')
  const { program } = readerOf(io.env, process.argv[1] ?? '')
  const file = shellWord(output)
  const next = [`${program} doctor ${file}`, `${program} run ${file}`]
  if (existsSync('/etc/sluice') && existsSync('/run/systemd/system')) next.push(...commandsForUnit(file, plan.keyFile))
  io.stdout.write(`Next:\n${next.map(command => `  ${printable(command)}\n`).join('')}`)
  return code
}

/** The user of the unit cannot read the key: systemd passes it. */
function commandsForUnit(file: string, keyFile: string): string[] {
  const [config, key, restart] = ['/etc/sluice/sluice.yaml', '/etc/sluice/access-key', 'sudo systemctl restart sluice']
  if (keyFile === '') return [`sudo cp ${file} ${config} && ${restart}`]
  const copy = keyFile === key ? [] : [`sudo install -m 0600 ${shellWord(keyFile)} ${key}`]
  return [...copy, `sed 's|key_file: .* }|credential: access-key }|' ${file} | sudo tee ${config} > /dev/null`, restart]
}

const numbered = (texts: readonly string[]) => texts.map((text, i) => `  ${i + 1}  ${text}`)

/** The logs in a list of numbers, names and paths, in which commas within braces do not count. Throws UsageError. */
function logsOf(text: string, machine: Machine): FoundLog[] {
  const names = text.split(/,(?![^{]*\})/).map(name => name.trim())
  const logs = names.filter(Boolean).map(name => {
    const log = machine.find(name)
    if (log) return log
    throw new UsageError(`read: ${name} is not a log above, and not the path of files that this user can read`, 'init')
  })
  if (logs.length === 0) throw new UsageError('read: name a log, as in --read "/srv/app/*.log"', 'init')
  return [...new Set(logs)]
}

/** The path of a file that does not exist. Throws UsageError. */
function freePath(path: string): string {
  if (existsSync(path)) throw new UsageError(`${path} exists; give the name of a new file with --output`, 'init')
  if (!existsSync(dirname(path))) throw new UsageError(`there is no folder ${dirname(path)}`, 'init')
  return path
}

/** Gets answers from options, from the proposals with --yes, or from the user, who is asked until `parse` accepts one. */
function questions(given: InitFlags, { stdin, stdout }: Io) {
  const lines = createInterface({ input: stdin, output: stdout, terminal: Boolean(stdin.isTTY && stdout.isTTY) })
  let isClosed = false
  lines.on('SIGINT', () => lines.close()).on('close', () => (isClosed = true))
  const answers = lines[Symbol.asyncIterator]()
  const ask = async <T>(flag: Flag, question: string, proposal: string, parse: (text: string) => T): Promise<T> => {
    const known = given[flag] ?? (given.yes ? proposal : undefined)
    if (known !== undefined) return parse(known)
    for (;;) {
      const prompt = `${question} [${proposal}]: `
      lines.setPrompt(prompt)
      // Answers from a pipe may all have come before they are asked for.
      if (isClosed) stdout.write(prompt)
      else lines.prompt()
      const { value, done } = await answers.next()
      if (done) {
        stdout.write('\n')
        throw new Error('not all questions were answered, so nothing was written; --yes accepts the proposals')
      }
      try {
        return parse(String(value).trim() || proposal)
      } catch (error) {
        if (!(error instanceof UsageError)) throw error
        stdout.write(`${printable(error.message)}\n`)
      }
    }
  }
  return { ask, close: () => lines.close() }
}
