#!/usr/bin/env node
import { holdSignals } from '../terminal/held-signals.js'

/**
 * The entry point of the program, and the only place that ends the process. It imports nothing slow before the signals
 * are handled: without a handler, SIGHUP ends the process.
 */

// With any argument, even undefined, process.exit overrides process.exitCode.
const exit = (code?: number) => (code === undefined ? process.exit() : process.exit(code))
await holdSignals(process.argv.slice(2), exit)
const { runProgram } = await import('./program.js')
await runProgram(exit)
