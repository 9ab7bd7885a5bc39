import type { Command } from './command-line.js'

export interface CommandGroup {
  /** The argument of `sluice help`. */
  readonly name: string
  readonly title: string
  readonly words: readonly string[]
  /** If all commands of the group share one row of the help: the text of this row. */
  readonly row?: string
}

export const GROUPS: readonly CommandGroup[] = [
  { name: 'run', title: 'Commands that run the daemon', words: ['run', 'quickstart'] },
  {
    name: 'check',
    title: 'Commands that write and check a configuration',
    words: ['init', 'validate', 'test', 'explain', 'graph', 'doctor'],
  },
  { name: 'inspect', title: 'Commands that look inside a daemon', words: ['status', 'top', 'tap', 'resend'] },
  { name: 'throttle', title: 'Commands that throttle events', words: ['throttle', 'simulate'] },
  { name: 'service', title: 'Commands of the service', words: ['serve', 'fleet', 'admin', 'api'] },
  {
    name: 'more',
    title: 'More commands',
    words: ['new', 'docs', 'completion'],
    row: 'new, docs, completion: plugins, reference, shell completion.',
  },
]

/** The help's text for words that are not commands themselves, but begin the names of commands. */
export const FAMILIES: Readonly<Record<string, string>> = {
  admin: 'Sets up, backs up and restores the service.',
}

export const groupOf = (name: string | undefined): CommandGroup | undefined => GROUPS.find(group => group.name === name)

/** The commands of a group, in the order of the group's words. */
export const commandsOf = ({ words }: CommandGroup, commands: readonly Command[]): readonly Command[] =>
  words.flatMap(word => commands.filter(({ name }) => name.split(' ')[0] === word))
