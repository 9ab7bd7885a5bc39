import type { Takes } from '../../daemon/process/command-line.js'
import { brief, type CommandLineModel, type CommandModel, type WordModel } from './model.js'

const quoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** The options of `complete` for a value. */
function candidates(takes: Takes | undefined): string {
  if (takes === undefined) return '-x'
  if (takes === 'file') return '-r -F'
  if (takes === 'folder') return "-x -a '(__fish_complete_directories)'"
  return `-x -a ${typeof takes === 'string' ? `'(__sluice_ids ${takes})'` : quoted(takes.join(' '))}`
}

const complete = (condition: string, ...rest: string[]) =>
  `complete -c sluice -n ${quoted(condition)} ${rest.join(' ')}\n`

function commandLines({ name, options, takes, operand }: CommandModel): string {
  const condition = `__sluice_is ${name}`
  const lines = options.map(({ long, short, value, takes, text }) =>
    complete(
      condition,
      ...(short ? [`-s ${short}`] : []),
      `-l ${long}`,
      ...(value === undefined ? [] : [candidates(takes)]),
      `-d ${quoted(brief(text))}`,
    ),
  )
  if (operand !== undefined && takes !== undefined) {
    const once = typeof takes === 'string' ? '' : `; and __sluice_at ${name.split(' ').length + 1}`
    lines.push(complete(`${condition}${once}`, takes === 'file' ? '-F' : candidates(takes).replace(/^-x /, '-f ')))
  }
  return lines.join('')
}

const words = (condition: string, list: readonly WordModel[]) =>
  list.map(({ word, summary }) => complete(condition, `-f -a ${word}`, `-d ${quoted(brief(summary))}`)).join('')

/** The completion for fish 3.0 or newer. */
export function fishCompletion({ commands, first, second }: CommandLineModel): string {
  const twoWords = commands.filter(({ name }) => name.includes(' ')).map(({ name }) => quoted(name))
  return `# Completion of sluice for fish. Made by: sluice completion fish

# Whether the words before the cursor are those of this command.
function __sluice_is
    set -l words (commandline -opc)
    set -l name "$words[2]"
    switch "$words[2] $words[3]"
        case ${twoWords.join(' ')}
            set name "$words[2] $words[3]"
    end
    test "$name" = "$argv"
end

# Whether the cursor is at this word, the first one behind sluice being 1.
function __sluice_at
    test (count (commandline -opc)) -eq $argv[1]
end

# The ids of components: of the configuration or the socket that the command line names, else of the running daemon.
function __sluice_ids
    set -l words (commandline -opc)
    set -l where
    for i in (seq 2 (count $words))
        switch $words[$i]
            case -c --config --socket
                set where $words[$i] (string replace -r '^~/' "$HOME/" -- $words[(math $i + 1)])
            case '--config=*' '--socket=*'
                set where $words[$i]
        end
    end
    $words[1] completion ids --of $argv[1] $where 2>/dev/null
end

complete -c sluice -f
${words('__sluice_at 1', [...first, { word: 'help', summary: 'Shows the help of a command' }])}${complete('__sluice_at 1', '-s h -l help', "-d 'Shows the help'")}${complete('__sluice_at 1', '-s V -l version', "-d 'Shows the version'")}${[...second].map(([word, next]) => words(`__sluice_is ${word}; and __sluice_at 2`, next)).join('')}${words('__sluice_is help; and __sluice_at 2', first)}${commands.map(commandLines).join('')}`
}
