import type { Codec, CodecDefinition } from '../core/codec.js'
import { csv } from './csv.js'
import { json } from './json.js'
import { logfmt } from './logfmt.js'
import { syslog } from './syslog.js'
import { text } from './text.js'

/** Every codec there is. A new one is one file and one line here. */
export const codecs: readonly CodecDefinition[] = [json, text, syslog, logfmt, csv]

/** The codec of this name with these options; undefined where there is no such codec, or it has no such options. */
export function codecOf(name: string, options: unknown = {}): Codec | undefined {
  const definition = codecs.find(codec => codec.name === name)
  const parsed = definition?.options.safeParse(options)
  return parsed?.success ? definition!.create(parsed.data as never) : undefined
}
