#!/usr/bin/env node
import { holdSignals } from './held-signals.js'

/**
 * The entry of the program. It imports nothing that takes time to load before the signals are in hand: until a process
 * has a handler, SIGHUP ends it.
 */

await holdSignals(process.argv.slice(2), code => process.exit(code))
await import('./program.js')
