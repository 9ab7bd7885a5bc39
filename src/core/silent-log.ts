import type { Logger } from 'pino'

const nothing = () => {}
const silent = { trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => silent }

/** A logger that discards everything, for components outside the daemon. */
export const silentLog = silent as unknown as Logger
