import type { Input } from '../input.js'
import { EXCLUDED, eachLine, textAfter } from '../verify.js'

/** The input, and by which of its lines one sees that all of it was processed. */
export interface Survey extends Input {
  /** The `request_id` of the last line, and of the last one that the throttle leaves alone. */
  readonly lastId: string
  readonly lastExcludedId: string
}

/** Reads all of the input, so that it is in the page cache before the first run. Access logs have no `request_id`. */
export function survey(input: Input): Survey {
  let last = ''
  let lastExcluded = ''
  eachLine(input.path, line => {
    last = line.toString('latin1')
    if (line.includes(EXCLUDED)) lastExcluded = last
  })
  return { ...input, lastId: idOf(last), lastExcludedId: idOf(lastExcluded) }
}

function idOf(line: string): string {
  return textAfter(Buffer.from(line), '"request_id":"')
}
