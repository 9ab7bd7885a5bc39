import { table, terminalOf } from '../../daemon/admin/daemon-view.js'
import { everything } from '../../daemon/client/client.js'
import type { DaemonDocument } from '../../daemon/client/documents.js'
import type { Io } from '../../daemon/process/command-line.js'
import { wrap } from '../../daemon/process/wrap.js'
import { printable } from '../../lib/printable.js'
import { short } from '../../lib/units.js'
import { type ApiConnection, withClient } from './api.js'

/**
 * Lists all managed daemons. For each daemon, shows its revision, whether its revision is the published one, and its
 * health.
 */
export function fleet(options: ApiConnection & { json: boolean }, io: Io): Promise<number> {
  return withClient(options, io, async client => {
    const daemons: DaemonDocument[] = []
    for await (const daemon of everything(page => client.fleet(page))) daemons.push(daemon)
    if (options.json) return daemons
    io.stdout.write(`${fleetText(daemons, terminalOf(io).width)}\n`)
    return undefined
  })
}

/** One line for each daemon, followed by the problems of that daemon. */
export function fleetText(daemons: readonly DaemonDocument[], width: number): string {
  if (daemons.length === 0) return 'No daemon has reported yet.'
  const rows = daemons.map(daemon => {
    const { received = 0, delivered = 0 } = daemon.totals
    const runs = `${daemon.revision ?? '-'}${daemon.behind ? ` of ${daemon.published_revision}` : ''}`
    const state = daemon.silent ? 'silent' : daemon.health
    return [
      printable(daemon.host),
      daemon.pipeline_id,
      runs,
      state,
      short(received),
      short(delivered),
      printable(daemon.version),
    ]
  })
  const head = ['host', 'pipeline', 'revision', 'state', 'in', 'out', 'version']
  const behind = daemons.filter(daemon => daemon.behind).length
  const silent = daemons.filter(daemon => daemon.silent).length
  const failed = daemons.filter(({ error }) => error !== null)
  const failures = failed.flatMap(({ host, error }) => wrap(printable(`! ${host}: ${error}`), width, '  '))
  const sum = `${daemons.length} daemon${daemons.length === 1 ? '' : 's'}, ${behind} behind, ${silent} silent`
  return [...table([head, ...rows], width), '', ...failures, sum].join('\n')
}
