import type { Trouble } from './daemon-troubles.js'
import type { DaemonView } from './daemon-view.js'

/** A position that was not saved for this long, with something to save, is stuck. */
const OLD_S = 60

/** Sources whose positions cannot be saved, or were not for a long time. */
export function positionTroubles({ scrape }: DaemonView): Trouble[] {
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
