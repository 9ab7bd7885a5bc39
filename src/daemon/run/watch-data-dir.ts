import type { Logger } from 'pino'
import { DataDirError, type DataDirLock } from '../../engine/run/state/data-dir.js'
import { every } from '../../lib/time.js'

const POLL_MS = 1000

/**
 * Notices when `data_dir` is removed or replaced while the daemon runs, and uses the folder that is there now or
 * creates it again. From then on, positions and disk buffers are stored in it. Calls `renewed` then. Returns a function
 * that ends the watch.
 */
export function watchDataDir(lock: DataDirLock, dataDir: string, log: Logger, renewed: () => void): () => void {
  let logged = ''
  let checking = false
  const check = async () => {
    if (checking) return
    checking = true
    try {
      if (!(await lock.renew())) return
      logged = ''
      const code = 'SLUICE_DATA_DIR_REPLACED'
      const text =
        'data_dir was removed or replaced while the daemon was running; using it as it is now. Events from disk buffers are lost if the daemon stops before they are delivered'
      log.error({ code, data_dir: dataDir }, text)
      renewed()
    } catch (error) {
      if (!(error instanceof DataDirError)) throw error
      if (logged === error.message) return
      logged = error.message
      const text =
        'data_dir was removed or replaced while the daemon was running and cannot be used; positions may not be saved'
      log.error({ code: error.code, data_dir: dataDir, error: error.message }, text)
    } finally {
      checking = false
    }
  }
  return every(POLL_MS, () => void check())
}
