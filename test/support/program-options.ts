import { type ParseArgsConfig, parseArgs } from 'node:util'

/** As parseArgs of node:util, for the programs of `npm run`: an unknown option ends the program with a sentence. */
export const programOptions: typeof parseArgs = <T extends ParseArgsConfig>(config: T = {} as T) => {
  try {
    return parseArgs(config)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (!code?.startsWith('ERR_PARSE_ARGS_')) throw error
    const known = Object.keys(config.options ?? {}).map(name => `--${name}`)
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

function wrongUsage(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}
