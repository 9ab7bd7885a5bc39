// Runs one of the programs behind an npm script: npm run fuzz api -- --count 5 runs the program of `fuzz` named `api`.
// Without a name, it runs the first one.
import { spawnSync } from 'node:child_process'

const bench = name => [`dist/bench/${name}.js`]
const PROGRAMS = {
  build: {
    nothing: [],
    kernel: ['scripts/build-kernel.mjs'],
    bundles: ['scripts/build-bundles.mjs'],
    types: ['node_modules/typescript/bin/tsc', '-p', 'scripts/types.json'],
    library: ['scripts/package-library.mjs'],
  },
  bench: {
    all: bench('main'),
    bounds: bench('bounds/main'),
    micro: bench('micro/main'),
    profile: bench('profile/main'),
    reloads: bench('reloads'),
    soak: bench('soak'),
    syncs: bench('syncs'),
    windows: bench('windows'),
  },
  fuzz: {
    api: ['dist/test/fuzz/main.js'],
    codecs: ['dist/test/fuzz/codecs.js'],
    kernel: ['dist/test/fuzz/kernel.js'],
    throttle: ['dist/test/property/throttle/main.js'],
    vectors: ['dist/test/unit/components/throttle/vectors.test.js'],
    patterns: ['dist/test/unit/lib/pattern.test.js'],
    kills: ['dist/test/ci/throttle-persist.test.js'],
  },
  sim: {
    throttle: ['dist/test/sim/main.js'],
    cluster: ['dist/test/sim-cluster/main.js'],
  },
}
/** By name: tests that draw more cases than in `npm test`, and their time limit in seconds. */
const MORE = {
  vectors: { SLUICE_VECTORS: '10000', TAP_TIMEOUT: '1200' },
  patterns: { SLUICE_PATTERNS: '1000000', TAP_TIMEOUT: '7200' },
  kills: { SLUICE_KILLS: '30', TAP_TIMEOUT: '600' },
}

const [kind, ...args] = process.argv.slice(2)
const programs = PROGRAMS[kind]
const isNamed = Object.hasOwn(programs, args[0] ?? '')
const name = isNamed ? args.shift() : Object.keys(programs)[0]
if (!isNamed && args[0] && !args[0].startsWith('-') && kind !== 'bench') {
  process.stderr.write(`npm run ${kind} has ${Object.keys(programs).join(', ')}, and not ${args[0]}\n`)
  process.exit(2)
}
const env = { ...process.env, ...MORE[name] }
if (programs[name].length > 0) {
  const { status, signal } = spawnSync(process.execPath, [...programs[name], ...args], { stdio: 'inherit', env })
  if (signal) process.kill(process.pid, signal)
  process.exitCode = status ?? 1
}
