import type { Daemon } from './daemon.js'
import type { Server } from './server.js'

interface Ordeal {
  readonly server: Server
  start(): Promise<Daemon>
  /** Writes the next tenth of all events. */
  write(): void
  readonly isOver: () => boolean
  /** Resolves when the daemon has begun to deliver. */
  begun(daemon: Daemon): Promise<unknown>
  /** By which the server ends. */
  readonly signal?: NodeJS.Signals
}

/** Three kills of sluice, two restarts of the server and its silence, while events are written. Returns the last daemon. */
export async function ordeal({ server, start, write, isOver, begun, signal = 'SIGKILL' }: Ordeal): Promise<Daemon> {
  write()
  let daemon = await start()
  for (let kills = 0; kills < 3; kills++) {
    write()
    await begun(daemon)
    daemon.child.kill('SIGKILL')
    await daemon.exit
    write()
    daemon = await start()
  }
  for (let restarts = 0; restarts < 2; restarts++) {
    const isRefused = await daemon.retryFor('refused')
    await server.kill(signal)
    if (!isOver()) write()
    await isRefused()
    await server.start()
  }
  const isLate = await daemon.retryFor('timeout')
  server.child.kill('SIGSTOP')
  write()
  await isLate()
  server.child.kill('SIGCONT')
  return daemon
}
