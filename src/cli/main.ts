#!/usr/bin/env node
import { holdSignals } from '../daemon/process/early-signals.js'

/**
 * The program's entry point, and the only place that ends the process. Handles signals before it loads anything else,
 * because SIGHUP ends a process that has no handler. Only Node.js starts earlier, and takes 50 ms of CPU time.
 */

// If process.exit gets an argument, even undefined, it overrides process.exitCode.
const exit = (code?: number) => (code === undefined ? process.exit() : process.exit(code))
await holdSignals(process.argv.slice(2), exit)
const { setFlagsFromString } = await import('node:v8')
const { preload } = await import('../lib/preload.js')

// The V8 of Node.js 20 optimizes functions too early, and often has to undo the optimization. In a run of the
// benchmark, it optimizes 172 functions and undoes 26 of these optimizations. With this flag, it optimizes 63 functions
// and undoes 5 optimizations. Later versions of Node.js wait longer by default, and reject the flag.
if (process.versions.node.startsWith('20.')) setFlagsFromString('--interrupt-budget=200000')

preload(new URL('./program.js', import.meta.url))
const { runProgram } = await import('./program.js')
await runProgram(exit)
