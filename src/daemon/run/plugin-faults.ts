import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { placeInPlugin } from '../../lib/modules/plugin-place.js'
import { tolerateFaults } from '../process/faults.js'

const HELP = 'Errors that code of plugins has thrown where nobody waits for it, such as in a timer of its own.'

/**
 * An error that a plugin throws in its own timers or listeners, or in a promise that nobody awaits, costs no event and
 * does not end the daemon: it is logged and counted. Which plugin it was, its stack says; without one the daemon ends,
 * as with errors of its own. Returns a function that ends this.
 */
export function tolerateFaultsOfPlugins(metrics: Metrics, log: Logger): () => void {
  let faults = 0
  metrics.series('counter', 'sluice_plugin_faults_total', HELP, () => [{ labels: {}, value: faults }])
  return tolerateFaults(error => {
    const place = placeInPlugin(error)
    if (place === undefined) return false
    faults++
    const text = 'a plugin has thrown an error where nobody waits for it; the daemon goes on'
    log.error({ code: 'SLUICE_PLUGIN_FAULT', error: errorText(error), place }, text)
    return true
  })
}
