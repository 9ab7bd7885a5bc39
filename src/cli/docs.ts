import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { components } from '../components.js'
import { jsonSchema } from '../config/reference/json-schema.js'
import { referenceText } from '../config/reference/reference.js'
import type { AnyDefinition } from '../core/component.js'
import { makeFolderSync } from '../lib/files/make-folder.js'
import { systemClock } from '../lib/time.js'
import { packageFolder, packageVersion } from '../lib/version.js'
import type { Command, Io } from '../terminal/command-line.js'
import { EXIT } from '../terminal/dispatch.js'
import { manPage } from './man.js'

/** The output of `sluice docs config` by file name. */
export function generatedFiles(known: readonly AnyDefinition[] = components): Readonly<Record<string, string>> {
  return {
    'schema.json': `${JSON.stringify(jsonSchema(known), null, 2)}\n`,
    'reference.md': referenceText(known),
  }
}

/** Writes the reference of the configuration and its JSON Schema into `folder`. */
export function docs(io: Pick<Io, 'stdout'>, folder: string = join(packageFolder, 'config')): number {
  makeFolderSync(folder)
  for (const [name, text] of Object.entries(generatedFiles())) {
    const file = join(folder, name)
    writeFileSync(file, text)
    io.stdout.write(`${file}\n`)
  }
  return EXIT.done
}

/** Writes the manual page. Its date is SOURCE_DATE_EPOCH if set, for reproducible builds. */
export function man(commands: readonly Command[], io: Pick<Io, 'stdout' | 'env'>): number {
  const seconds = Number(io.env.SOURCE_DATE_EPOCH || Number.NaN)
  const time = Number.isSafeInteger(seconds) ? seconds * 1000 : systemClock.wall()
  io.stdout.write(manPage(commands, packageVersion(), new Date(time).toISOString().slice(0, 10)))
  return EXIT.done
}
