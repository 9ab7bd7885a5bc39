import type { Takes } from '../../daemon/process/command-line.js'
import { brief, type CommandLineModel, type CommandModel, type OptionModel, type WordModel } from './model.js'

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
const escaped = (text: string) => text.replace(/[[\]:\\]/g, '\\$&')

/** The action of `_arguments` for a value. */
function action(takes: Takes | undefined): string {
  if (takes === undefined) return ' '
  if (takes === 'file') return '_files'
  if (takes === 'folder') return '_files -/'
  return typeof takes === 'string' ? `_sluice_ids ${takes}` : `(${takes.join(' ')})`
}

function optionSpec({ long, short, value, takes, text }: OptionModel): string {
  const described = `[${escaped(brief(text))}]${value === undefined ? '' : `:${escaped(value)}:${action(takes)}`}`
  const [dashes, letter] = value === undefined ? [`--${long}`, `-${short}`] : [`--${long}=`, `-${short}+`]
  if (!short) return quoted(`${dashes}${described}`)
  return `'(-${short} --${long})'{${letter},${dashes}}${quoted(described)}`
}

function commandCase({ name, options, takes, operand, many }: CommandModel): string {
  const specs = options.map(optionSpec)
  if (operand) {
    const first = many && typeof takes === 'string' ? '*' : '1'
    specs.push(quoted(`${first}:${escaped(operand.split(' ')[0]!)}:${action(takes)}`))
  }
  return `    (${quoted(name)})\n      _arguments -S \\\n${specs.map(spec => `        ${spec}`).join(' \\\n')}\n      ;;\n`
}

const described = (words: readonly WordModel[]) =>
  words.map(({ word, summary }) => quoted(`${word}:${escaped(brief(summary))}`)).join('\n        ')

/** The completion for zsh: a file `_sluice` in its function path, or sourced after compinit. */
export function zshCompletion({ commands, first, second }: CommandLineModel): string {
  const twoWords = commands.filter(({ name }) => name.includes(' ')).map(({ name }) => quoted(name))
  const followers = [...second].map(
    ([word, next]) =>
      `    (${word})\n      found=(\n        ${described(next)}\n      )\n      _describe -t commands command found\n      ;;\n`,
  )
  return `#compdef sluice
# Completion of sluice for zsh. Made by: sluice completion zsh

# The ids of components: of the configuration or the socket that the command line names, else of the running daemon.
_sluice_ids() {
  local -a ids where
  local option
  for option in -c --config --socket; do
    [[ -n \${opt_args[$option]} ]] && where=($option \${(Q)opt_args[$option]})
  done
  ids=(\${(f)"$(_call_program ids $program completion ids --of $argv[-1] $where 2>/dev/null)"})
  (( $#ids )) && compadd "\${(@)argv[1,-2]}" -- $ids
}

_sluice() {
  local program=$words[1] name=$words[2] ret=1
  local -a found
  local -A opt_args
  if (( CURRENT == 2 )); then
    found=(
        ${described(first)}
        'help:Shows the help of a command'
    )
    _describe -t commands command found && ret=0
    [[ $PREFIX == -* ]] && compadd -- --help --version && ret=0
    return ret
  fi
  if (( CURRENT == 3 )); then
    case $name in
${followers.map(text => text.replaceAll(/^/gm, '  ').trimEnd()).join('\n')}
      (help)
        found=(
        ${described(first)}
        )
        _describe -t commands command found
        return
        ;;
    esac
  else
    case "$name $words[3]" in
      (${twoWords.join('|')})
        name="$name $words[3]"
        shift words
        (( CURRENT-- ))
        ;;
    esac
  fi
  shift words
  (( CURRENT-- ))
  case $name in
${commands.map(commandCase).join('')}  esac
}

if [[ $funcstack[1] == _sluice ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
`
}
