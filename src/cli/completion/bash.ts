import type { Takes } from '../../daemon/process/command-line.js'
import type { CommandLineModel, CommandModel, OptionModel } from './model.js'

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const kind = (takes: Takes | undefined) =>
  takes === undefined ? 'nothing' : typeof takes === 'string' ? takes : quoted(`words ${takes.join(' ')}`)

const names = ({ long, short }: OptionModel) => (short ? [`--${long}`, `-${short}`] : [`--${long}`])

function commandCase({ name, options, takes }: CommandModel): string {
  const values = options
    .filter(({ value }) => value !== undefined)
    .map(option => `        ${names(option).join('|')}) value=${kind(option.takes)} ;;\n`)
  return [
    `    ${quoted(name)})\n`,
    `      options=${quoted(options.map(({ long }) => `--${long}`).join(' '))}\n`,
    `      operands=${kind(takes)}\n`,
    ...(values.length > 0 ? ['      case $prev in\n', ...values, '      esac\n'] : []),
    '      ;;\n',
  ].join('')
}

/** The completion for bash 4.2 or newer; does not need the package bash-completion. */
export function bashCompletion({ commands, first, second }: CommandLineModel): string {
  const twoWords = commands.filter(({ name }) => name.includes(' ')).map(({ name }) => quoted(name))
  const followers = [...second].map(
    ([word, next]) => `      ${word}) next=${quoted(next.map(({ word }) => word).join(' '))} ;;\n`,
  )
  return `# Completion of sluice for bash. Made by: sluice completion bash

# The ids of components: of the configuration or the socket that the command line names, else of the running daemon.
_sluice_ids() {
  local i word value
  local -a where=()
  for ((i = 2; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    case $word in
      -c|--config|--socket)
        value=\${COMP_WORDS[i + 1]}
        [[ $value == = ]] && value=\${COMP_WORDS[i + 2]}
        [[ $value == '~/'* ]] && value=$HOME/\${value:2}
        where=("$word" "$value")
        ;;
    esac
  done
  "\${COMP_WORDS[0]}" completion ids --of "$1" "\${where[@]}" 2>/dev/null
}

# _sluice_reply KIND PREFIX: what may stand there.
_sluice_reply() {
  local IFS=$'\\n'
  case $1 in
    file) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$2")) ;;
    folder) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$2")) ;;
    words\\ *) IFS=$' \\n'; COMPREPLY=($(compgen -W "\${1#words }" -- "$2")) ;;
    nothing) COMPREPLY=() ;;
    *) COMPREPLY=($(compgen -W "$(_sluice_ids "$1")" -- "$2")) ;;
  esac
}

_sluice() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  local command=\${COMP_WORDS[1]} options='' operands=nothing value='' next='' at=2 word i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _sluice_reply ${quoted(`words ${[...first.map(({ word }) => word), 'help', '--help', '--version'].join(' ')}`)} "$cur"
    return
  fi
  # --name=value comes as three words.
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $prev == = ]]; then
    prev=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 2)); then
    case $command in
${followers.join('')}      help) _sluice_reply ${quoted(`words ${first.map(({ word }) => word).join(' ')}`)} "$cur"; return ;;
    esac
  else
    case "$command \${COMP_WORDS[2]}" in
      ${twoWords.join('|')})
        command="$command \${COMP_WORDS[2]}"
        at=3
        ;;
    esac
  fi
  case $command in
${commands.map(commandCase).join('')}  esac
  if [[ -n $value ]]; then
    _sluice_reply "$value" "$cur"
  elif [[ $cur == -* ]]; then
    for ((i = at; i < COMP_CWORD; i++)); do
      word=\${COMP_WORDS[i]}
      [[ $word == --* ]] && options=" $options " && options=\${options/" $word "/ }
    done
    _sluice_reply "words $options" "$cur"
  elif [[ -n $next && $operands == words\\ * ]]; then
    _sluice_reply "$operands $next" "$cur"
  elif [[ -n $next ]]; then
    _sluice_reply "words $next" "$cur"
  elif [[ $operands != words\\ * ]] || ((COMP_CWORD == at)); then
    _sluice_reply "$operands" "$cur"
  fi
}

complete -F _sluice sluice
`
}
