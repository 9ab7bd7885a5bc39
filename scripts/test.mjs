// Runs the tests. Those of a folder below a layer of test/unit share a process, or a few where they are many; every other
// file has one of its own.
//
//   node scripts/test.mjs [--ci] [PATH…]
//
// A path names a test file or a folder of tests; without one all run but test/ci. With --ci a test that is left out
// counts as failed, a file that fails is run once more, alone, and the five slowest files are printed.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
process.chdir(ROOT)
const TESTS = 'dist/test'
const ROOM = join(TESTS, 'support/room.js')
/**
 * For all tests of one process, on a machine that is slow and has other work. A file has no bound of its own: in a room it
 * would be that of all files that follow.
 */
const MOST_SECONDS = 900
/** A room with more built tests than this is divided. */
const MOST_BYTES = 120_000
/** What takes longest for its size begins first. */
const LONGEST =
  /^ci\/property$|^unit\/components\/(conformance|file|processors|throttle)\b|^e2e\/(quickstart|service)$|^ci\/(docs|fleet|push)$/
const MOST_RETRIED = 3
/** What they find may not come twice: a seed, or the moment of a kill. */
const RANDOM = /^ci\/(chaos|property|sim|throttle-persist)\b/

const args = process.argv.slice(2)
const isCi = args.includes('--ci')
/** Tests of other programs and of real time wait a lot. Those of test/ci also measure the machine. */
const JOBS = availableParallelism() + (isCi ? 2 : 4)
const wanted = args.filter(arg => arg !== '--ci')
/** Folders of tests are made below it: another run in this checkout has another one. */
const scratch = join(ROOT, '.tap', `run-${process.pid}`)

/** A process of tests: a room, as test/unit/engine/flow is one, or a file. */
function processes() {
  const paths = wanted.length > 0 ? wanted.map(builtOf) : [TESTS]
  const found = paths.flatMap(path => (statSync(path).isDirectory() ? [...below(path)].sort() : [path]))
  const groups = new Map()
  for (const file of found) {
    const name = relative(TESTS, file).replace(/\.test\.js$/, '')
    const room = found.length > 1 && /^unit\/[^/]+(\/[^/]+)?(?=\/)/.exec(name)?.[0]
    if (wanted.length === 0 && name.startsWith('ci/')) continue
    const group = groups.get(room || name) ?? { name: room || name, files: [], bytes: 0 }
    if (!groups.has(group.name)) groups.set(group.name, group)
    group.files.push(file)
    group.bytes += statSync(file).size
  }
  // What begins last should end soon.
  const weight = ({ name, bytes }) => (LONGEST.test(name) ? MOST_BYTES : 0) + bytes
  return [...groups.values()].flatMap(divided).sort((a, b) => weight(b) - weight(a))
}

/** The parts of a room, of about the same size: they run side by side. */
function divided(room) {
  const count = Math.ceil(room.bytes / MOST_BYTES)
  if (count === 1) return [room]
  const parts = Array.from({ length: count }, (_, i) => ({ name: `${room.name} ${i + 1}`, files: [], bytes: 0 }))
  const sized = room.files.map(file => ({ file, bytes: statSync(file).size })).sort((a, b) => b.bytes - a.bytes)
  for (const { file, bytes } of sized) {
    const least = parts.reduce((a, b) => (b.bytes < a.bytes ? b : a))
    least.files.push(file)
    least.bytes += bytes
  }
  return parts
}

/** The built file of a test, or folder of tests, that is named by its source, built file or path below test. */
function builtOf(name) {
  const path = relative(ROOT, resolve(name))
    .replace(/^dist\//, '')
    .replace(/\.ts$/, '.js')
  const found = [join('dist', path), join(TESTS, path)].find(existsSync)
  if (found) return found
  process.stderr.write(`${name}: no such test file or folder of tests\n`)
  process.exit(2)
}

function* below(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* below(path)
    else if (entry.name.endsWith('.test.js')) yield path
  }
}

const running = new Set()

/** Runs one process of tests; with all that it leaves behind it is ended after `MOST_SECONDS`. */
async function run({ name, files }) {
  const script = files.length > 1 ? [ROOM, name, ...files] : files
  const begin = performance.now()
  const env = { ...process.env, TAP_TIMEOUT: String(MOST_SECONDS), TAP_CWD: scratch }
  const child = spawn(process.execPath, script, { stdio: ['ignore', 'pipe', 'pipe'], detached: true, env })
  running.add(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', text => {
      output += text
    })
  const end = () => killGroup(child)
  const timer = setTimeout(end, (MOST_SECONDS + 30) * 1000)
  const code = await new Promise(resolve => child.on('exit', (code, signal) => resolve(code ?? signal)))
  // What the tests have started and left behind holds the pipes open.
  end()
  await Promise.all(
    [child.stdout, child.stderr].map(stream => stream.closed || new Promise(r => stream.on('close', r))),
  )
  clearTimeout(timer)
  running.delete(child)
  const total = /^# \{ total: (\d+)(?:, pass: (\d+))?(?:, fail: (\d+))?/m.exec(output)
  const skipped = [...output.matchAll(/^ *(?:not )?ok\b.*# (?:SKIP|TODO)\b *(.*)$/gm)].map(([, reason]) => reason)
  const failed = Number(total?.[3] ?? 0) + (isCi ? skipped.length : 0)
  return {
    name,
    code,
    output,
    skipped,
    seconds: (performance.now() - begin) / 1000,
    passed: Number(total?.[2] ?? 0),
    // A process that fails without a failed test: a crash, or no test at all.
    failed: failed || (code === 0 && total?.[2] ? 0 : 1),
    failedFiles: failedFiles(files, output),
  }
}

function killGroup(child) {
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {}
}

/** Of a room, the files whose tests failed: what stands before `ran FILE`. After a crash, the file that ran. */
function failedFiles(files, output) {
  if (files.length === 1) return files
  const failed = []
  let isFailing = false
  let ran = 0
  for (const [, not, name] of output.matchAll(/^(not )?ok \d+ - (.*?)(?: # .*)?$/gm)) {
    isFailing ||= not !== undefined
    if (!name.startsWith('ran ')) continue
    if (isFailing) failed.push(files[ran])
    isFailing = false
    ran++
  }
  if (ran < files.length) failed.push(files[ran])
  return failed
}

/** What failed: the tests that hold a failed one, without what passed in them, and what is not TAP (a crash). */
function failures({ output }) {
  const loose = output.split('\n').filter(line => !/^( |$|ok |not ok |# |\d+\.\.\d+|TAP version)/.test(line))
  const blocks = output.split(/^(?=# Subtest: )/m).filter(block => /^ *not ok /m.test(block))
  const lines = blocks.flatMap(block => block.split('\n')).filter(line => !/^ *(ok \d+ - |1\.\.\d+$|$)/.test(line))
  return [...loose.slice(-200), ...lines.slice(0, 1000)].join('\n')
}

function report(result) {
  const { name, passed, failed, skipped, seconds, code } = result
  const what = failed > 0 ? `FAILED, ${failed} of ${passed + failed}, exit ${code}` : `${passed} passed`
  const left = skipped.length > 0 ? `, ${skipped.length} skipped` : ''
  process.stdout.write(`${name.padEnd(34)} ${what}${left}  ${seconds.toFixed(1)} s\n`)
  if (failed > 0) process.stdout.write(`${failures(result)}\n`)
}

async function runAll(list, jobs) {
  const results = []
  const queue = [...list]
  const worker = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const result = await run(next)
      results.push(result)
      report(result)
    }
  }
  await Promise.all(Array.from({ length: jobs }, worker))
  return results
}

/** Runs the files that failed once more, alone, and returns how many assertions still failed. */
async function retry(failed) {
  const files = failed.flatMap(({ failedFiles }) => failedFiles)
  const fixed = files.find(file => RANDOM.test(relative(TESTS, file)))
  if (fixed || files.length > MOST_RETRIED) return sum(failed, 'failed')
  process.stdout.write(`\nonce more, alone: ${files.map(file => relative(TESTS, file)).join(', ')}\n`)
  const again = await runAll(
    files.map(file => ({ name: relative(TESTS, file), files: [file] })),
    1,
  )
  for (const { name, failed } of again) if (failed === 0) process.stdout.write(`flaky: ${name.replace(/js$/, 'ts')}\n`)
  return sum(again, 'failed')
}

const sum = (results, member) => results.reduce((total, result) => total + result[member], 0)

function endAll() {
  for (const child of running) killGroup(child)
  rmSync(scratch, { recursive: true, force: true })
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.once(signal, () => {
    endAll()
    process.exit(130)
  })

const begin = performance.now()
mkdirSync(scratch, { recursive: true })
const results = await runAll(processes(), JOBS)
const failed = results.filter(({ failed }) => failed > 0)
const before = sum(failed, 'failed')
const stillFailed = isCi && before > 0 ? await retry(failed) : before
endAll()
if (isCi) {
  process.stdout.write('\nthe slowest:\n')
  for (const { name, seconds } of results.toSorted((a, b) => b.seconds - a.seconds).slice(0, 5))
    process.stdout.write(`${seconds.toFixed(1).padStart(7)} s  ${name}\n`)
}
const reasons = new Map()
for (const reason of results.flatMap(({ skipped }) => skipped)) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
for (const [reason, count] of reasons) process.stdout.write(`skipped: ${count} × ${reason || 'no reason given'}\n`)
const passed = sum(results, 'passed') + before - stillFailed
process.stdout.write(`\nin ${((performance.now() - begin) / 1000).toFixed(0)} s\n`)
process.stdout.write(`${passed} passed, ${stillFailed} failed\n`)
process.exitCode = stillFailed > 0 ? 1 : 0
