import { DISCARDED } from '../core/processor.js'
import type { DaemonOptions } from '../daemon/admin/daemon-socket.js'
import {
  type Command,
  type Io,
  isSwitch,
  type OptionSpec,
  type Takes,
  UsageError,
} from '../daemon/process/command-line.js'
import { EXIT } from '../daemon/process/dispatch.js'
import { GROUPS } from '../daemon/process/groups.js'

/**
 * Completion for bash, zsh and fish. Each script passes the words of the command line to `sluice complete`. This
 * command prints one candidate per line, followed by a tab and a description. If a path is expected, the command prints
 * only `:file` or `:folder`.
 */

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_sluice() {
  local cur=\${COMP_WORDS[COMP_CWORD]} word
  [[ $cur == = ]] && cur=
  COMPREPLY=()
  while IFS=$'\\t' read -r word _; do
    case $word in
      :file) compopt -o filenames 2>/dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$cur")) ;;
      :folder) compopt -o filenames 2>/dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen -d -- "$cur")) ;;
      "$cur"*) COMPREPLY+=("$word") ;;
    esac
  done < <("\${COMP_WORDS[0]}" complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _sluice sluice
`,
  zsh: `#compdef sluice
_sluice() {
  local -a found
  found=(\${(f)"$("$words[1]" complete "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  compset -P '--*='
  case $found[1] in
    (:file) _files ;;
    (:folder) _files -/ ;;
    (?*) found=(\${found//:/\\\\:}); found=(\${found/$'\\t'/:}); _describe sluice found ;;
  esac
}
if [[ $funcstack[1] == _sluice ]]; then _sluice "$@"; else compdef _sluice sluice; fi
`,
  fish: `function __sluice_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] complete $words[2..-1] 2>/dev/null)
    switch "$found[1]"
        case :file
            __fish_complete_path (string replace -r '^--[^=]*=' '' -- $words[-1])
        case :folder
            __fish_complete_directories (string replace -r '^--[^=]*=' '' -- $words[-1])
        case '*'
            printf '%s\\n' $found
    end
end
complete -c sluice -f -a '(__sluice_complete)'
`,
}

export function completion(shell: string, { stdout }: Pick<Io, 'stdout'>): number {
  const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined
  if (script === undefined) throw new UsageError(`it is one of ${Object.keys(SCRIPTS).join(', ')}`, 'completion')
  stdout.write(script)
  return EXIT.done
}

const HELP = ['--help\tShows the help']

/** Prints the candidates for the last of `words`. */
export async function complete(words: readonly string[], commands: readonly Command[], io: Io): Promise<number> {
  // bash passes --name=value as three words. zsh and fish pass it as one word.
  const all = words.flatMap(word => {
    const [, option, value] = /^(--[\w-]+)=(.*)$/s.exec(word) ?? []
    return word === '=' ? [] : option === undefined ? [word] : [option, value!]
  })
  if (words.at(-1) === '=') all.push('')
  const found = await candidates(all.slice(0, -1), all.at(-1) ?? '', commands, io)
  io.stdout.write(found.map(line => `${line}\n`).join(''))
  return EXIT.done
}

async function candidates(before: readonly string[], current: string, commands: readonly Command[], io: Io) {
  if (before.length === 0)
    return [...namesBelow([], commands), 'help\tShows the help of a command', ...HELP, '--version\tShows the version']
  if (before[0] === 'help') {
    const names = namesBelow(before.slice(1), commands)
    const known = new Set(names.map(line => line.split('\t')[0]))
    const groups = before.length > 1 ? [] : GROUPS.filter(({ name }) => !known.has(name))
    return [...names, ...groups.map(({ name, title }) => `${name}\t${title}`)]
  }
  const names = namesBelow(before, commands)
  const command = commands.find(({ name }) => `${before.join(' ')} `.startsWith(`${name} `))
  if (!command) return names
  const options = Object.entries(command.options)
  const given = new Map<string, string>()
  let operands = 0
  let open: [name: string, spec: OptionSpec] | undefined
  for (const word of before.slice(command.name.split(' ').length)) {
    const found = options.find(([long, { short }]) => word === `--${long}` || word === `-${short}`)
    if (open) given.set(open[0], word)
    else if (found) given.set(found[0], '')
    else operands++
    open = !open && found && !isSwitch(found[1]) ? found : undefined
  }
  if (open) return valuesFor(open[1], given, io)
  if (current.startsWith('-')) {
    const left = options.filter(([long, { many }]) => many || !given.has(long))
    return [...left.map(([long, { text }]) => described(`--${long}`, text)), ...HELP]
  }
  const { name, takes, max = 0 } = command.operands ?? {}
  if (operands > 0 && (typeof takes === 'object' || (max <= 1 && commands.some(isBelow(command.name))))) return []
  const config = options.find(([, { operand }]) => operand)?.[1]
  const own = name === undefined ? (config ?? {}) : { value: name, takes }
  return [...(await valuesFor(own, given, io)), ...(operands === 0 ? names : [])]
}

const isBelow = (words: string) => (command: Command) => command.name.startsWith(`${words} `)

/** Returns the word that follows `words` in each command name that begins with `words`. */
function namesBelow(words: readonly string[], commands: readonly Command[]): string[] {
  const next = new Map<string, string>()
  for (const { name, summary } of words.length === 0 ? commands : commands.filter(isBelow(words.join(' ')))) {
    const word = name.split(' ')[words.length]!
    if (!next.has(word)) next.set(word, described(word, summary))
  }
  return [...next.values()]
}

const described = (word: string, text: string) => `${word}\t${text.replace(/[.;](\s.*|$)/s, '')}`

const BY_VALUE: Readonly<Record<string, Takes>> = { FILE: 'file', INPUT: 'file', FOLDER: 'folder' }

async function valuesFor(
  { takes, value = '' }: { takes?: Takes | undefined; value?: string },
  given: ReadonlyMap<string, string>,
  { env }: Io,
): Promise<readonly string[]> {
  const kind = takes ?? BY_VALUE[value] ?? []
  if (typeof kind !== 'string') return kind
  if (kind === 'file' || kind === 'folder') return [`:${kind}`]
  const path = (option: string) => given.get(option)?.replace(/^~(?=\/)/, env.HOME ?? '~')
  const boxes = await boxesOf({ config: path('config'), socket: path('socket') }, env)
  const ids = boxes.filter(box => kind === 'component' || kind === box.kind || kind === box.type)
  return [...new Set(ids.map(({ id }) => id))]
}

/**
 * Components of the configuration or the daemon, and side outputs, which can be tapped by name. Imports modules only
 * here, so that other completions stay quick.
 */
async function boxesOf(options: DaemonOptions, env: Io['env']) {
  const { findSocket, selected } = await import('../daemon/admin/daemon-socket.js')
  const { config } = selected(options, env)
  if (config === undefined) {
    const { statusAt } = await import('../daemon/admin/daemon-view.js')
    return withSides(
      (await statusAt(await findSocket(options, env))).components,
      ({ side_outputs = {}, discarded, kind }) => [
        ...Object.keys(side_outputs),
        ...(kind === 'processor' && discarded > 0 ? [DISCARDED] : []),
      ],
    )
  }
  const { loadDaemonConfig } = await import('../daemon/managed/local-part.js')
  const { outputsOf } = await import('../engine/config/inputs.js')
  const { sources, processors, destinations } = await loadDaemonConfig(config, env)
  return withSides([...sources, ...processors, ...destinations], outputsOf)
}

type Box = Record<'id' | 'kind' | 'type', string>

function withSides<B extends Box & { inputs: readonly string[] }>(
  boxes: readonly B[],
  sidesOf: (box: B) => string[],
): Box[] {
  const read = boxes.flatMap(({ inputs }) => inputs.filter(input => input.includes('.')))
  const sides = boxes.flatMap(box => sidesOf(box).map(name => `${box.id}.${name}`))
  return [...boxes, ...[...read, ...sides].map(id => ({ id, kind: 'output', type: '' }))]
}
