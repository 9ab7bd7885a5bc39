import { systemClock } from '../../lib/time.js'

/** Commands that run until a signal ends them. A service manager may send signals to them at any time. */
const DAEMONS = ['run', 'serve', 'quickstart']
const HELD = ['SIGHUP', 'SIGINT', 'SIGTERM'] as const
const FAILED = 1
/** npm and `timeout` send a signal again that the terminal, or they themselves, sent to the whole process group. */
const REPEATED_MS = 300

/** Signals that arrived while there was no handler, with the time. */
const held = new Map<NodeJS.Signals, number>()
/** Number of handlers set by `onHeldSignal`. Listeners of other code, such as a preloaded agent, are not included. */
const handlers = new Map<NodeJS.Signals, number>()

/** Whether a signal arrives so soon after the one at `since` that it is the same request. */
export const isRepeated = (since: number) => systemClock.now() - since < REPEATED_MS

/**
 * Keeps signals from ending a daemon during startup and shutdown, when nothing handles them. `onHeldSignal` delivers
 * these signals later. A second SIGINT or SIGTERM still ends the process.
 */
export async function holdSignals(args: readonly string[], exit: (code: number) => void): Promise<void> {
  if (!DAEMONS.includes(args[0] ?? '')) return
  for (const name of HELD) {
    process.on(name, () => {
      if (handlers.get(name)) return
      const since = held.get(name)
      if (since !== undefined && name !== 'SIGHUP' && !isRepeated(since)) exit(FAILED)
      held.set(name, since ?? systemClock.now())
    })
  }
  // Without a handler, Node.js responds to SIGUSR1 by opening its debugger on a port.
  process.on('SIGUSR1', () => {})
  // Node.js ignores SIGXFSZ, so that a write beyond RLIMIT_FSIZE fails with EFBIG. If preloaded code has changed how
  // the signal is handled, this listener keeps the signal from ending the process.
  process.on('SIGXFSZ', () => {})
  await closeDebugger()
}

/**
 * From now on, calls `handler` for each signal `name`. If such a signal is held, calls `handler` for it immediately.
 * The returned function removes the handler.
 */
export function onHeldSignal(name: NodeJS.Signals, handler: (name: NodeJS.Signals) => void): () => void {
  process.on(name, handler)
  handlers.set(name, (handlers.get(name) ?? 0) + 1)
  if (held.delete(name)) queueMicrotask(() => handler(name))
  let isRemoved = false
  return () => {
    if (isRemoved) return
    isRemoved = true
    process.off(name, handler)
    handlers.set(name, handlers.get(name)! - 1)
  }
}

/**
 * If a SIGUSR1 opened the debugger before this process had a handler for the signal, closes the debugger. If an option
 * asked for the debugger, keeps it open.
 */
async function closeDebugger(): Promise<void> {
  const options = [...process.execArgv, process.env.NODE_OPTIONS ?? '']
  if (options.some(option => /--inspect(-brk|-wait)?(=|\s|$)/.test(option))) return
  try {
    const inspector = await import('node:inspector')
    if (inspector.url() !== undefined) inspector.close()
  } catch {
    // Node.js was built without the inspector.
  }
}
