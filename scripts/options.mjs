import { parseArgs } from 'node:util'

/** As parseArgs of node:util: an unknown option ends the program with a sentence. */
export function programOptions(config) {
  try {
    return parseArgs(config)
  } catch (error) {
    console.error(error.message.split('. ')[0])
    process.exit(2)
  }
}
