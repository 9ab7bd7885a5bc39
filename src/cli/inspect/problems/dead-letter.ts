import { dataDirOf } from '../../../engine/config/load.js'
import { deadLetterPath } from '../../../engine/run/dead-letter.js'
import { formatDuration } from '../../../lib/units.js'
import { counted, type DaemonView } from '../daemon-view.js'
import type { Problem } from './daemon.js'

/** Events in the dead-letter queues, with the commands that send them again. */
export function deadLetterProblems({ scrape, about }: Pick<DaemonView, 'scrape' | 'about'>): Problem[] {
  const unwritable = scrape.all('sluice_dead_letters_unwritable').filter(({ value }) => value > 0)
  const blocked = unwritable.map(({ labels }) => ({
    what: `${labels.component_id}: its dead letters cannot be written`,
    todo: 'Nothing is lost: their events wait, and it is tried again until it works. Is the disk of data_dir full, or not writable? The log says why (SLUICE_DEAD_LETTER, or the reason dead_letter of a destination).',
  }))
  const kept = scrape.all('sluice_dead_letters').flatMap(({ labels, value }) => {
    if (value === 0) return []
    const id = labels.component_id!
    const [age] = scrape.all('sluice_dead_letters_age_seconds', { component_id: id })
    const since = age ? `, the oldest for ${formatDuration(Math.max(1, Math.round(age.value)) * 1000)}` : ''
    const command = resendCommand(id, about)
    return {
      what: `${id}: ${counted(value, 'event')} in the dead-letter queue${since}`,
      todo: `${labels.component_kind === 'processor' ? 'They could not be processed' : 'The destination rejected them'}. The first command lists the reasons. When the cause is corrected, the second one sends them again.`,
      commands: [`${command} --dry-run`, command],
    }
  })
  return [...blocked, ...kept]
}

/** A command line that works from the current directory. */
export function resendCommand(id: string, about: DaemonView['about']): string {
  const config = about?.config ?? 'FILE'
  const words = ['sluice', 'resend', '--config', config, '--destination', id]
  // The configuration may name another folder here, since it can be relative or come from the environment of the
  // daemon.
  if (about && dataDirHere(about.config) !== about.data_dir) words.push(deadLetterPath(about.data_dir, id))
  return words.map(quoted).join(' ')
}

function dataDirHere(config: string | undefined): string | undefined {
  try {
    return config === undefined ? undefined : dataDirOf(config, process.env)
  } catch {
    return undefined
  }
}

/** Quotes a word for a POSIX shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
