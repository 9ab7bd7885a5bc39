#!/usr/bin/env node
import { holdSignals } from '../daemon/process/early-signals.js'

/**
 * The entry point of the program, and the only place that ends the process. Signals are handled before anything else is
 * loaded: without a handler, SIGHUP ends the process. Only Node.js itself comes before that, for 50 ms of CPU time.
 */

// With any argument, even undefined, process.exit overrides process.exitCode.
const exit = (code?: number) => (code === undefined ? process.exit() : process.exit(code))
await holdSignals(process.argv.slice(2), exit)
const { setFlagsFromString } = await import('node:v8')
const { preload } = await import('../lib/preload.js')

// V8 of Node.js 20 optimizes functions that have seen little, and often has to do so again: 172 functions and 26 that it
// takes back in a run of the benchmark, with this 63 and 5. Later versions wait longer by themselves, and refuse the flag.
if (process.versions.node.startsWith('20.')) setFlagsFromString('--interrupt-budget=200000')

preload(new URL('./program.js', import.meta.url))
const { runProgram } = await import('./program.js')
await runProgram(exit)
