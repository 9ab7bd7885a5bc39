#!/usr/bin/env node
import { holdSignals } from '../terminal/held-signals.js'

/**
 * The entry of the program, and the only place that ends the process. It imports nothing that takes time to load before the signals are in hand: until a process
 * has a handler, SIGHUP ends it.
 */

// With an argument, even an undefined one, process.exit replaces the exit code that the program has set.
const exit = (code?: number) => (code === undefined ? process.exit() : process.exit(code))
await holdSignals(process.argv.slice(2), exit)
const { runProgram } = await import('./program.js')
await runProgram(exit)
