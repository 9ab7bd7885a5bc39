// Compiles the kernel from its AssemblyScript to the file that git keeps, so that whoever installs Sluice needs no
// compiler. With --check it compares the bytes instead, and fails where they differ.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))
/** What they export is the kernel: formats of lines and of records are in their own folders. */
const PARTS = [
  'src/core/codecs/assembly/field-lines.ts',
  'src/core/codecs/assembly/layout.ts',
  'src/lib/kernel/assembly/index.ts',
  'src/components/kafka/assembly/record-lines.ts',
  'src/components/loki/assembly/entries.ts',
  'src/components/otlp/assembly/log-records.ts',
]
const OUT = 'src/lib/kernel/kernel.wasm'
const folder = mkdtempSync(join(tmpdir(), 'sluice-kernel-'))
try {
  const compiled = join(folder, 'kernel.wasm')
  // Its memory is that of `src/lib/lines/chunk-memory.ts`, of the same size.
  const pages = ['--importMemory', '--initialMemory', '645', '--maximumMemory', '645']
  const options = ['-O3', '--runtime', 'stub', '--enable', 'simd', '--use', 'abort=', ...pages, '-o', compiled]
  execFileSync(process.execPath, ['node_modules/assemblyscript/bin/asc.js', ...PARTS, ...options], { stdio: 'inherit' })
  const bytes = readFileSync(compiled)
  if (!process.argv.includes('--check')) writeFileSync(OUT, bytes)
  else if (!bytes.equals(readFileSync(OUT))) {
    process.stderr.write(`${OUT} is not what its parts compile to. Run "npm run build kernel".\n`)
    process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true })
}
