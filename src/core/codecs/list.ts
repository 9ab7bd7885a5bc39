import type { CodecDefinition } from '../codec.js'
import { apache } from './apache.js'
import { cri } from './cri/cri.js'
import { csv } from './csv.js'
import { dockerJson } from './docker_json/docker_json.js'
import { gelf } from './gelf.js'
import { grok } from './grok/grok.js'
import { json } from './json.js'
import { keyValue } from './key_value.js'
import { klog } from './klog.js'
import { logfmt } from './logfmt.js'
import { msgpack } from './msgpack/msgpack.js'
import { ndjson } from './ndjson.js'
import { nginx } from './nginx.js'
import { offerCodecs } from './options.js'
import { protobuf } from './protobuf/protobuf.js'
import { raw } from './raw.js'
import { regexCodec } from './regex.js'
import { syslog } from './syslog/syslog.js'
import { textCodec } from './text.js'

/** All built-in codecs. A new codec needs one file and one line here. */
export const codecs: readonly CodecDefinition[] = [
  json,
  textCodec,
  syslog,
  logfmt,
  csv,
  nginx,
  apache,
  keyValue,
  klog,
  dockerJson,
  cri,
  gelf,
  msgpack,
  protobuf,
  ndjson,
  raw,
  regexCodec,
  grok,
]

offerCodecs(codecs)

export { codecDefinition, codecOf, createCodec } from './loaded.js'
