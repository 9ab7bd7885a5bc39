import type { LiveBucket } from '../../components/throttle/keyed-processor.js'
import { askJson } from '../../daemon/admin/daemon-socket.js'
import { statusAt } from '../../daemon/admin/daemon-view.js'
import { socketPath } from '../../daemon/admin/socket.js'
import type { FoundEvents } from '../../page/server/watch/find.js'
import type { AskDaemon } from '../check/explain/live.js'

/** Asks a daemon of this machine through its socket. */
export const liveDaemon: AskDaemon = {
  // Undefined if the daemon does not have the component, or if the component has no buckets. For `rule`, see Finding.
  async bucket(dataDir, component, key, rule): Promise<LiveBucket | undefined> {
    const query = new URLSearchParams({ component })
    if (key !== null) query.set('key', key)
    if (rule !== undefined) query.set('rule', rule ?? '')
    return askJson(socketPath(dataDir), `/bucket?${query}`)
  },

  async problems(dataDir): Promise<ReadonlyMap<string, string>> {
    const { problems, destinations } = await statusAt(socketPath(dataDir))
    const found = new Map<string, string>()
    for (const { component, what } of problems)
      if (component !== undefined && destinations.some(({ id }) => id === component) && !found.has(component))
        found.set(component, what)
    return found
  },

  async past(dataDir, fields): Promise<FoundEvents | undefined> {
    const query = new URLSearchParams({ q: JSON.stringify(fields), limit: '20' })
    return askJson(socketPath(dataDir), `/api/v1/find?${query}`)
  },
}
