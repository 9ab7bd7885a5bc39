/** Commands that run until a signal ends them. A service manager may send signals to them at any time. */
const DAEMONS = ['run', 'serve', 'quickstart']
const HELD = ['SIGHUP', 'SIGINT', 'SIGTERM'] as const
const FAILED = 1

/** Signals that arrived while there was no handler. */
const held = new Set<NodeJS.Signals>()
/** Number of handlers set by `onHeldSignal`. Listeners of other code, such as a preloaded agent, do not count. */
const handlers = new Map<NodeJS.Signals, number>()

/**
 * Prevents signals from ending a daemon while nothing handles them: during startup and shutdown. `onHeldSignal`
 * delivers them later. A second SIGINT or SIGTERM still ends the process.
 */
export async function holdSignals(args: readonly string[], exit: (code: number) => void): Promise<void> {
  if (!DAEMONS.includes(args[0] ?? '')) return
  for (const name of HELD) {
    process.on(name, () => {
      if (handlers.get(name)) return
      if (held.has(name) && name !== 'SIGHUP') exit(FAILED)
      held.add(name)
    })
  }
  // Without a handler, Node.js responds to SIGUSR1 by opening its debugger on a port.
  process.on('SIGUSR1', () => {})
  // Node.js ignores this signal, and a write beyond RLIMIT_FSIZE fails with EFBIG. If preloaded code has changed that,
  // this listener keeps the signal from ending the process.
  process.on('SIGXFSZ', () => {})
  await closeDebugger()
}

/**
 * Calls `handler` for each signal from now on, and at once if a signal is held. The returned function removes the
 * handler.
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
 * Closes the debugger that a SIGUSR1 opened before this process had a handler for it. Keeps a debugger that an option
 * asked for.
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
