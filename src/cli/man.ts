import type { Command } from '../daemon/process/command-line.js'
import { ABOUT, ENVIRONMENT, EXIT_CODES, GLOBAL_OPTIONS, optionRows, usage } from '../daemon/process/help.js'

/** Generates the manual page from the same tables as `--help`. */

const FILES = [
  ['/etc/sluice/sluice.yaml', 'The configuration of the daemon, where the systemd unit expects it.'],
  ['/etc/sluice/access-key', 'The access key, which the unit passes on as a credential.'],
  ['~/.config/sluice, ~/.local/state/sluice', "A user's own configurations, and their state (see XDG_CONFIG_HOME)."],
  ['/var/lib/sluice', 'Checkpoints, disk buffers, dead-letter queues, and the socket of the daemon (sluice.sock).'],
] as const

/** Escapes text: roff interprets no part of it as a request, and keeps quotes and dashes in ASCII. */
function plain(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll("'", '\\(aq')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti')
    .replaceAll('"', '\\(dq')
    .replace(/[^\0-~]/gu, character => `\\[u${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`)
    .replace(/^\./gm, '\\&.')
}

const bold = (text: string) => `\\fB${plain(text)}\\fR`

/** Running text. Parts in backquotes are bold. The text is broken into short lines, which roff joins and wraps. */
function prose(text: string): string {
  const roff = text
    .split(/`([^`]+)`/)
    .map((part, i) => (i % 2 === 1 ? bold(part) : plain(part)))
    .join('')
  return roff.replace(/(.{60,80}?) (?=\S{1,40})/g, '$1\n').replace(/^\./gm, '\\&.')
}

/** A usage line: literal words are bold, placeholders are not. */
function synopsis(command: Command): string {
  const words = usage(command).split(' ')
  return words
    .map(word => {
      const [, before = '', typed = '', after = ''] = /^(\[?)(-{1,2}[a-z-]+|[a-z-]+)(\]?)$/.exec(word) ?? []
      return typed ? `${before}${bold(typed)}${after}` : plain(word)
    })
    .join(' ')
}

const entries = (rows: readonly (readonly [string, string])[]) =>
  rows.map(([left, right]) => `.TP\n${bold(left)}\n${prose(right)}\n`).join('')

function section(command: Command): string {
  const { operands } = command
  const [first = '', ...more] = command.text ?? []
  return [
    `.SS sluice ${plain(command.name)}\n${synopsis(command)}\n.PP\n${prose(command.summary)}\n`,
    ...(first ? [`.PP\n${prose(first)}\n`] : []),
    ...more.map(paragraph => `.PP\n${prose(paragraph)}\n`),
    entries([...(operands ? [[operands.name, operands.text] as const] : []), ...optionRows(command)]),
    ...command.examples.map(({ title, line }) => `.PP\n# ${prose(title)}\n.PP\n.nf\n.RS 4\n${plain(line)}\n.RE\n.fi\n`),
  ].join('')
}

/** The complete page in roff. `day` has the form 2031-02-03. */
export function manPage(commands: readonly Command[], version: string, day: string): string {
  return [
    `.TH SLUICE 1 ${day} "sluice ${plain(version)}" "User Commands"\n`,
    `.SH NAME\nsluice \\- ships logs: tails, throttles by key, delivers at least once\n`,
    '.SH SYNOPSIS\n\\fBsluice\\fR COMMAND [OPTION\\[u2026]]\n',
    `.SH DESCRIPTION\n${bold('sluice')}${prose(ABOUT.replace(/^sluice/, ''))}\n`,
    `.SH OPTIONS\n${entries(GLOBAL_OPTIONS)}`,
    `.SH COMMANDS\n${commands.map(section).join('')}`,
    `.SH EXIT STATUS\n${entries(EXIT_CODES)}`,
    `.SH ENVIRONMENT\n${entries(ENVIRONMENT)}`,
    `.SH FILES\n${entries(FILES)}`,
  ].join('')
}
