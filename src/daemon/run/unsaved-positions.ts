import type { Logger } from 'pino'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { UnsavedPositions } from '../../engine/run/state/checkpoints.js'

/** Exposes for each source whether its positions could not be saved. */
export function unsavedMetrics(
  metrics: Metrics,
  sources: () => readonly { readonly id: string }[],
  unsaved: () => readonly UnsavedPositions[],
): void {
  const help = 'Whether the last attempt to save the positions of a source failed.'
  metrics.series('gauge', 'sluice_checkpoint_unsaved', help, () => {
    const failed = new Set(unsaved().map(({ source }) => source))
    return sources().map(({ id }) => ({ labels: { component_id: id }, value: failed.has(id) ? 1 : 0 }))
  })
}

/** Logs positions that are unsaved when the daemon ends. Returns whether there are any. */
export function reportUnsaved(unsaved: readonly UnsavedPositions[], log: Logger): boolean {
  for (const { source, file, error, savedAt } of unsaved) {
    const since = savedAt === undefined ? 'the start' : new Date(savedAt).toISOString()
    log.error(
      { code: 'SLUICE_ENDED_WITHOUT_POSITIONS', source, file, error, since },
      'ended without saving the last positions of a source; events delivered since the last save are sent again after the next start. Check the disk of data_dir first',
    )
  }
  return unsaved.length > 0
}
