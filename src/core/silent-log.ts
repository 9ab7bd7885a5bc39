import type { Logger } from 'pino'

const nothing = () => {}
const silent = { trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => silent }

/** A log that keeps nothing, for components that run without a daemon. */
export const silentLog = silent as unknown as Logger
