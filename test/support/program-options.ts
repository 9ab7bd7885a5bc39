import { type ParseArgsConfig, parseArgs } from 'node:util'

/** The default of an option with a value that may be left out. */
export const NONE = undefined as string | undefined

type Default = string | number | boolean | readonly string[] | undefined
type ValueOf<T> = T extends boolean ? boolean : T extends number ? number : T extends string ? string : T

/**
 * The options of a program of `npm run`, by their defaults; one with a list can be repeated. `--help` prints the usage
 * and ends the program. An unknown option, or a text where a number must be, ends it with a sentence.
 */
export function programOptions<T extends Readonly<Record<string, Default>>>(defaults: T, usage = '', operands = false) {
  const options: NonNullable<ParseArgsConfig['options']> = {}
  for (const [name, value] of Object.entries(defaults))
    options[name] = { type: typeof value === 'boolean' ? 'boolean' : 'string', multiple: Array.isArray(value) }
  options.help = { type: 'boolean', short: 'h' }
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: operands })
    if (values.help) {
      process.stdout.write(usage)
      process.exit()
    }
    const read = Object.entries(defaults).map(([name, value]) => {
      const given = values[name] as string | undefined
      return [name, typeof value === 'number' ? numberOf(`--${name}`, given, value) : (given ?? value)]
    })
    return { options: Object.fromEntries(read) as { readonly [K in keyof T]: ValueOf<T[K]> }, operands: positionals }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (!code?.startsWith('ERR_PARSE_ARGS_')) throw error
    const known = Object.keys(options).map(name => `--${name}`)
    // Node.js goes on with what a positional argument that begins with a dash would need.
    return wrongUsage(`${message.split('. ')[0]}; known are ${known.join(', ')}`)
  }
}

/** The number that an option has, or `otherwise` without the option. Another text ends the program with a sentence. */
export function numberOf(option: string, text: string | undefined, otherwise?: number): number {
  if (text === undefined && otherwise !== undefined) return otherwise
  if (text !== undefined && /^\d+(?:\.\d+)?$/.test(text)) return Number(text)
  return wrongUsage(`${option} must be a number, not ${text}`)
}

/** An error of the program is one line, and its exit code is 1. */
export async function runProgram(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main()
  } catch (error) {
    process.stderr.write(`${name}: ${(error as Error).message}\n`)
    process.exitCode = 1
  }
}

function wrongUsage(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}
