import { existsSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { components } from '../../components/list.js'
import { codecs } from '../../core/codecs/list.js'
import { errorText } from '../../core/errors.js'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { COMPONENT_ID } from '../../engine/config/schema.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import { documentPath, packageFolder } from '../../lib/version.js'
import { TEMPLATES, WHAT, type What } from './templates.js'

export interface NewOptions {
  readonly typescript: boolean
}

const OWN = '@sluice-logs/sluice'
const TESTING = `'${OWN}/plugin/testing'`

const TSCONFIG = {
  compilerOptions: {
    target: 'es2023',
    module: 'nodenext',
    strict: true,
    noEmit: true,
    erasableSyntaxOnly: true,
    verbatimModuleSyntax: true,
    skipLibCheck: true,
    types: ['node'],
  },
  include: ['*.ts'],
}

/** Writes a plugin, its test and a configuration into a new folder `name`. */
export async function newPlugin(
  [what, name]: readonly string[],
  { typescript }: NewOptions,
  io: Pick<Io, 'stdout'>,
): Promise<number> {
  const template = TEMPLATES[what as What]
  if (!template) throw new UsageError(`${what} is not a kind of plugin; the kinds are ${WHAT.join(', ')}`, 'new')
  if (name === undefined || !COMPONENT_ID.test(name))
    throw new UsageError(
      'NAME is made of a-z, 0-9 and _, and begins with a letter: it is the type in configurations',
      'new',
    )
  const taken =
    what === 'codec'
      ? codecs.map(({ name }) => name)
      : components.filter(({ kind }) => kind === what).map(({ type }) => type)
  if (taken.includes(name)) throw new UsageError(`Sluice has a ${what} ${name} already; choose another name`, 'new')
  const folder = resolve(name)
  if (existsSync(folder)) throw new UsageError(`${folder} exists already; choose another name`, 'new')
  await makeFolder(folder)
  const file = `${name}.${typescript ? 'ts' : 'js'}`
  const json = (value: object) => `${JSON.stringify(value, null, 2)}\n`
  const files: Record<string, string> = {
    [file]: template.code(name, text => (typescript ? text : '')),
    [`${name}.test.js`]: testOf(what as What, file),
    'sluice.yaml': template.config(file, name),
    'package.json': json({
      name: `sluice-plugin-${name}`,
      private: true,
      type: 'module',
      exports: `./${file}`,
      // Without this dependency, npm would remove the link whenever it installs something.
      devDependencies: { [OWN]: `file:${packageFolder}` },
    }),
    ...(typescript && { 'tsconfig.json': json(TSCONFIG) }),
  }
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text)
  const isLinked = await link(folder, io)
  for (const path of Object.keys(files)) io.stdout.write(`${join(relative('', folder), path)}\n`)
  io.stdout.write(
    [
      '',
      'Next:',
      `  cd ${relative('', folder)}`,
      ...(isLinked ? ['  node --test                    runs its test'] : []),
      '  sluice validate sluice.yaml    checks a configuration that uses it',
      ...(what === 'processor' ? ['  sluice test sluice.yaml        runs the tests of that configuration'] : []),
      '  sluice run sluice.yaml',
      ...(typescript ? ['  npm install --no-save typescript @types/node && npx tsc    checks its types'] : []),
      `Then change ${file}. The contract is in ${documentPath('docs/plugins.md')}.`,
      '',
    ].join('\n'),
  )
  return EXIT.done
}

/** Lets tests and editors find `@sluice-logs/sluice/plugin` here. The daemon does not need this link. */
async function link(folder: string, io: Pick<Io, 'stdout'>): Promise<boolean> {
  try {
    await makeFolder(join(folder, 'node_modules/@sluice-logs'))
    symlinkSync(packageFolder, join(folder, 'node_modules/@sluice-logs/sluice'), 'dir')
    return true
  } catch (error) {
    io.stdout.write(
      `cannot link node_modules/@sluice-logs/sluice to ${packageFolder}, which the test needs: ${errorText(error)}\n`,
    )
    return false
  }
}

function testOf(what: What, file: string): string {
  const { testImports, test } = TEMPLATES[what]
  const body = test(file)
  const used = (names: readonly string[]) => names.filter(name => new RegExp(`\\b${name}\\b`).test(body)).join(', ')
  const fs = used(['appendFileSync', 'existsSync', 'mkdtempSync', 'readFileSync', 'rmSync', 'writeFileSync'])
  const folders = "import { tmpdir } from 'node:os'\nimport { join } from 'node:path'\n"
  return `import assert from 'node:assert/strict'
${fs && `import { ${fs} } from 'node:fs'\n${folders}`}import { test } from 'node:test'
import { ${testImports} } from ${TESTING}

const { default: plugin } = await loadPlugin(new URL('./${file}', import.meta.url))

${body}`
}
