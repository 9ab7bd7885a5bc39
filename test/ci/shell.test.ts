import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commands } from '../../src/cli/commands.js'
import { sluiceMain } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'

const CONFIG = `
data_dir: ./state
sources:
  pipe: { type: stdin }
processors:
  limit_app: { type: throttle, inputs: [pipe], limit: 1, window: 1s }
destinations:
  kept: { type: blackhole, inputs: [limit_app] }
  dropped: { type: blackhole, inputs: [limit_app.discarded] }
`

const first = [...new Set(commands.map(({ name }) => name.split(' ')[0]!)), 'help', '--help', '--version'].sort()
const options = (name: string) =>
  [...Object.keys(commands.find(command => command.name === name)!.options), 'help'].map(long => `--${long}`).sort()

/** What is offered at the end of a line, by every shell. */
const CASES: readonly (readonly [line: string, offered: readonly string[]])[] = [
  ['sluice ', first],
  ['sluice -', ['--help', '--version']],
  ['sluice ta', ['tap']],
  ['sluice admin ', ['backup', 'export', 'import', 'init', 'restore']],
  ['sluice api wh', ['whoami']],
  ['sluice api P', ['POST', 'PUT']],
  ['sluice api GET P', []],
  ['sluice help gr', ['graph']],
  ['sluice run --', options('run')],
  ['sluice admin init --', options('admin init')],
  ['sluice top --in', ['--interval']],
  ['sluice top --interval ', []],
  ['sluice run --config pi', ['pipeline.yaml']],
  ['sluice run -c pi', ['pipeline.yaml']],
  ['sluice validate pipeline.yaml s', ['state']],
  ['sluice admin backup --config pipeline.yaml --to ', ['bin', 'state']],
  ['sluice graph --format ', ['dot', 'mermaid', 'text']],
  ['sluice tap --config pipeline.yaml ', ['dropped', 'kept', 'limit_app', 'limit_app.discarded', 'pipe']],
  ['sluice explain -c pipeline.yaml --source ', ['pipe']],
  ['sluice simulate --config=pipeline.yaml --component ', ['limit_app']],
  ['sluice resend --config pipeline.yaml --destination k', ['kept']],
  ['sluice tap --socket state/none.sock ', []],
]

/** The words of a line as bash hands them over: the sign between an option and its value is a word, too. */
function bashWords(line: string): string {
  const words = line.split(/(=)| /).filter(word => word !== undefined)
  return words.map(word => `'${word}'`).join(' ')
}

/** How each shell is asked: a script that writes a line of candidates for each line, between bars. */
const SHELLS = {
  bash: (completion: string) => [
    `source ${completion}`,
    'complete -p sluice >&2',
    "IFS='|'",
    ...CASES.map(
      ([line]) =>
        `COMP_WORDS=(${bashWords(line)}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _sluice; echo "\${COMPREPLY[*]}"`,
    ),
  ],
  fish: (completion: string) => [
    `source ${completion}`,
    ...CASES.map(([line]) => `string join -- '|' (complete -C '${line}' | string replace -r '\\t.*' '')\necho`),
  ],
  // A shell of its own in a terminal of its own: its completion works nowhere else.
  zsh: (completion: string) => [
    'zmodload zsh/zpty',
    'zpty inner zsh -f -i',
    `zpty -w inner 'source ${completion}.ask'`,
    "zpty -r inner told '*<ready>*'",
    ...CASES.map(
      ([line]) =>
        `zpty -w -n inner $'\\x15${line}\\t'; zpty -r inner told '*<offered>*</offered>*'; print -r -- "\${\${told#*<offered>}%%</offered>*}"`,
    ),
    'zpty -d inner',
  ],
}

/** Within the zsh that is asked: the candidates are written instead of shown. */
const ZSH_ASK = (completion: string) => `
PS1= PS2= RPS1=
unset zle_bracketed_paste
autoload -Uz compinit && compinit -u -D
source ${completion}
compadd() {
  if [[ " $* " != *\\ -[OAD]\\ * ]]; then
    local -a found
    builtin compadd -O found "$@"
    hits+=($found)
  fi
  builtin compadd "$@"
}
asking() {
  typeset -ga hits=()
  _main_complete
  print -r -- "<offered>\${(j:|:)hits}</offered>"
  compstate[insert]= compstate[list]=
}
zle -C asking complete-word asking
bindkey '^I' asking
zle-line-init() { print '<ready>' }
zle -N zle-line-init
`

function scripts(t: Test) {
  const folder = testFolder(t, { 'pipeline.yaml': CONFIG, state: {}, bin: {} })
  writeFileSync(join(folder, 'bin/sluice'), `#!/bin/sh\nexec ${process.execPath} ${sluiceMain} "$@"\n`)
  chmodSync(join(folder, 'bin/sluice'), 0o755)
  const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}`, HOME: folder, TERM: 'dumb' }
  return { folder, env }
}

for (const shell of ['bash', 'zsh', 'fish'] as const) {
  t.test(`what ${shell} offers`, async t => {
    const program = needs(t, shell)
    if (!program) return
    const { folder, env } = scripts(t)
    const run = (command: string, ...args: string[]) =>
      spawnSync(command, args, { cwd: folder, env, encoding: 'utf8', timeout: 120_000 })
    const made = run('sluice', 'completion', shell)
    t.match(made, { status: 0, stderr: '' })
    const completion = join(folder, 'bin/completion')
    writeFileSync(completion, made.stdout)
    writeFileSync(`${completion}.ask`, ZSH_ASK(completion))
    writeFileSync(join(folder, 'bin/all'), SHELLS[shell](completion).join('\n'))
    const plain = { bash: ['--norc', '--noprofile'], zsh: ['-f'], fish: ['--no-config'] }[shell]
    const { stdout, stderr, status } = run(program, ...plain, join(folder, 'bin/all'))
    t.equal(status, 0, `${shell} ends well`)
    t.match(stderr, shell === 'bash' ? /^complete -F _sluice sluice\n$/ : /^$/, 'and says nothing')
    const lines = stdout.split('\n').slice(0, -1)
    if (shell === 'fish')
      for (let i = lines.length - 1; i > 0; i--) if (lines[i] === '' && lines[i - 1] !== '') lines.splice(i, 1)
    t.equal(lines.length, CASES.length)
    for (const [i, [line, offered]] of CASES.entries()) {
      const found = lines[i]!.split('|').filter(Boolean)
      const names = [...new Set(found.map(word => word.replace(/^.*=|\/$/g, '')))].sort()
      t.same(names, offered, `${shell}: ${line}`)
    }
  })
}

t.test('the manual page has every command, and no formatter objects to it', async t => {
  const groff = needs(t, 'groff')
  const mandoc = needs(t, 'mandoc')
  if (!groff || !mandoc) return
  const { folder, env } = scripts(t)
  const page = spawnSync('sluice', ['docs', 'man'], {
    env: { ...env, SOURCE_DATE_EPOCH: '1700000000' },
    encoding: 'utf8',
  })
  t.match(page.stdout, /^\.TH SLUICE 1 2023-11-14 /)
  const file = join(folder, 'sluice.1')
  writeFileSync(file, page.stdout)
  const quiet = { status: 0, stderr: '', stdout: '' }
  const said = (program: string, ...args: string[]) => {
    const { status, stderr, stdout } = spawnSync(program, args, { encoding: 'utf8', timeout: 120_000 })
    return { status, stderr, stdout }
  }
  t.same(said(mandoc, '-Tlint', '-Wstyle', file), quiet, 'mandoc')
  t.same(said(groff, '-man', '-ww', '-Tutf8', '-z', file), quiet, 'groff')
  const { stdout: text } = said(mandoc, '-Tutf8', '-Owidth=200', file)
  const shown = text.replace(/.\u0008/gu, '')
  for (const { name, summary, options, examples } of commands) {
    t.ok(shown.includes(`sluice ${name}\n`), name)
    t.ok(shown.replace(/\s+/g, ' ').includes(summary.replaceAll('`', '')), `${name}: summary`)
    for (const option of Object.keys(options)) t.ok(shown.includes(`--${option}`), `${name} --${option}`)
    for (const { line } of examples) t.ok(shown.includes(`${line}\n`), line)
  }
})
