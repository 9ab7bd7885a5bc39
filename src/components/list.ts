// This import loads all codecs.
import '../core/codecs/list.js'
import type { AnyDefinition } from '../core/component.js'
import { blackhole } from './blackhole/destination.js'
import { demo } from './demo/source.js'
import { elasticsearch } from './elasticsearch/destination.js'
import { fileDestination } from './file/destination.js'
import { fileSource } from './file/source.js'
import { httpDestination } from './http/destination.js'
import { httpSource } from './http/source.js'
import { journald } from './journald/source.js'
import { kafka } from './kafka/destination.js'
import { loki } from './loki/destination.js'
import { otlp } from './otlp/destination.js'
import { otlpSource } from './otlp/source.js'
import { aggregate } from './processors/aggregate.js'
import { dedupe } from './processors/dedupe.js'
import { edit } from './processors/edit.js'
import { enrich } from './processors/enrich.js'
import { explode } from './processors/explode.js'
import { filter } from './processors/filter.js'
import { flatten } from './processors/flatten.js'
import { parse } from './processors/parse.js'
import { redact } from './processors/redact.js'
import { reduce } from './processors/reduce.js'
import { routeProcessor } from './processors/route.js'
import { sample } from './processors/sample.js'
import { script } from './processors/script.js'
import { throttle } from './processors/throttle.js'
import { redis } from './redis/source.js'
import { s3 } from './s3/destination.js'
import { stdout } from './stdio/destination.js'
import { stdin } from './stdio/source.js'
import { tcp } from './tcp/source.js'

export const components: readonly AnyDefinition[] = [
  fileSource,
  stdin,
  journald,
  tcp,
  httpSource,
  otlpSource,
  redis,
  demo,
  throttle,
  filter,
  enrich,
  parse,
  redact,
  edit,
  routeProcessor,
  explode,
  flatten,
  script,
  sample,
  dedupe,
  aggregate,
  reduce,
  httpDestination,
  loki,
  elasticsearch,
  otlp,
  s3,
  kafka,
  fileDestination,
  stdout,
  blackhole,
]
