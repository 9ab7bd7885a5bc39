/** Commands that run until a signal ends them, and that a service manager may send signals to at any time. */
const DAEMONS = ['run', 'serve']
const HELD = ['SIGHUP', 'SIGINT', 'SIGTERM'] as const
const FAILED = 1

/** Signals that came while nobody handled them. */
const held = new Set<NodeJS.Signals>()
/** How many handlers of `onHeldSignal` there are. Listeners of other code, such as an agent that is preloaded, do not count. */
const handlers = new Map<NodeJS.Signals, number>()

/**
 * Keeps signals to a daemon from ending the process at a moment when nothing else handles them: while it starts, and
 * while it ends. `onHeldSignal` delivers them later. A second SIGINT or SIGTERM ends the process all the same.
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
  // Without a handler of its own, Node.js answers SIGUSR1 by opening its debugger on a port.
  process.on('SIGUSR1', () => {})
  // Node.js ignores it, so a write beyond the limit of RLIMIT_FSIZE fails with EFBIG. Preloaded code may end the process at it.
  process.on('SIGXFSZ', () => {})
  await closeDebugger()
}

/** Handles a signal from now on, and at once if it has come before. The result ends that. */
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

/** Closes the debugger that a SIGUSR1 opened before there was a handler, unless it was asked for. */
async function closeDebugger(): Promise<void> {
  const options = [...process.execArgv, process.env.NODE_OPTIONS ?? '']
  if (options.some(option => /--inspect(-brk|-wait)?(=|\s|$)/.test(option))) return
  try {
    const inspector = await import('node:inspector')
    if (inspector.url() !== undefined) inspector.close()
  } catch {
    // Node.js was built without it.
  }
}
