import type { DaemonView } from '../daemon-view.js'
import type { Problem } from './daemon.js'

/** If there is something to save, a position that was not saved for this long is stuck. */
const OLD_S = 60

/** Sources and buffers whose positions cannot be saved, or were not saved for a long time. */
export function positionProblems(view: DaemonView): Problem[] {
  return [...sourceProblems(view), ...bufferProblems(view)]
}

function sourceProblems({ scrape }: DaemonView): Problem[] {
  const ages = new Map(scrape.by('component_id', 'sluice_checkpoint_age_seconds'))
  const unsaved = new Map(scrape.by('component_id', 'sluice_checkpoint_unsaved'))
  return [...new Set([...ages.keys(), ...unsaved.keys()])].flatMap(id => {
    const age = ages.get(id) ?? 0
    const failed = (unsaved.get(id) ?? 0) > 0
    if (!failed && age <= OLD_S) return []
    const since = `were not saved for ${Math.round(age)} s`
    return {
      what: failed ? `${id}: its positions cannot be saved` : `${id}: its positions ${since}`,
      ...(failed && age >= 1 ? { detail: `They ${since}.` } : {}),
      todo: 'After a restart, what was sent since then would be sent again. Is the disk of data_dir full, or not writable? The log says why (SLUICE_CHECKPOINT_NOT_SAVED).',
    }
  })
}

function bufferProblems({ scrape }: DaemonView): Problem[] {
  return scrape.all('sluice_buffer_progress_unsaved').flatMap(({ labels, value }) =>
    value === 0
      ? []
      : {
          what: `${labels.component_id}: what was delivered from its buffer cannot be saved`,
          todo: 'After a restart, it would be delivered again. Is the disk of data_dir full, or not writable? The log says why (SLUICE_BUFFER_LEDGER_NOT_WRITTEN).',
        },
  )
}
