import { readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { HOST } from '../../test/support/address.js'
import { checkout } from '../../test/support/checkout.js'

/** The configurations of all programs, with places to fill in. */
export const CONF = join(checkout, 'bench/peers/conf')

export interface Places {
  readonly folder: string
  readonly input: string
  readonly out: string
  readonly port: number
}

/** Writes the configuration of this name, filled in, to `path`. */
export function fillIn(name: string, path: string, { folder, input, out, port }: Places): void {
  const places: Record<string, string> = {
    '@CONF@': CONF,
    '@RUN@': folder,
    '@IN@': input,
    '@OUT@': out,
    '@OUTDIR@': dirname(out),
    '@OUTNAME@': basename(out),
    '@PORT@': String(port),
    '@BROKER@': `${HOST}:${port}`,
  }
  writeFileSync(
    path,
    readFileSync(join(CONF, name), 'utf8').replace(/@[A-Z]+@/g, place => places[place] ?? place),
  )
}
