import { TIME_FIELDS } from '../components/throttle/event/auto-time.js'
import { looksLikeSeconds } from '../components/throttle/event/time.js'
import type { Codec } from '../core/codec.js'
import { JSON_OBJECTS } from '../core/codecs/json.js'
import { formatDuration } from '../lib/units.js'
import type { Replay } from './replay.js'
import type { StatedFact } from './result.js'
import type { ThrottlePath } from './subject.js'
import type { Trials } from './trials.js'
import { count, keyText, number, timeText } from './words.js'

export interface Replayed {
  /** The field with the event time. If undefined, the time of receipt is used. */
  readonly time: string | undefined
  readonly route: ThrottlePath
  readonly replay: Replay<Trials>
  /** True: all events arrived as backlog. False: each event arrived when it was written. */
  readonly isBacklog?: boolean
  /** A replay of the same events with the other way of arrival. Undefined if this replay was not wanted. */
  readonly other?: Replay<Trials> | undefined
}

export function notesOn({ replay, time, route, isBacklog = false, other }: Replayed): StatedFact[] {
  const { undecoded, slots, timeless, backwards, furthestBackMs } = replay
  const [{ decider, options }] = replay.visitor.all as [Trials['all'][number]]
  const { failedOpen, refused, late, waits } = decider
  const { span } = slots
  const facts: StatedFact[] = []
  const add = (name: string, text: string) => facts.push({ name, text })
  if (span) add('time', `${timeText(span.from)} to ${timeText(span.to)} (${formatDuration(span.to - span.from)})`)
  if (replay.held > 0) {
    const by = [...replay.heldBy].map(([id, events]) => `${number(events)} by ${id}`).join(', ')
    add('before', `${count(replay.held, 'event')} discarded before ${route.throttle}, not counted above: ${by}`)
  }
  for (const [id, events] of replay.failed) add('failed', `${count(events, 'event')} that ${id} could not process`)
  if (undecoded > 0) add('undecoded', `${undecodedText(undecoded, route)}: read as text`)
  if (timeless > 0)
    add(
      'no time',
      `${count(timeless, 'event')} without a readable ${timeName(time)}: got the time of the previous event`,
    )
  if (backwards > 0) {
    const furthest = formatDuration(furthestBackMs)
    add('order', `${count(backwards, 'event')} earlier than the previous event, by up to ${furthest}`)
  }
  const { costless } = replay.visitor
  if (costless > 0)
    add('cost', `${count(costless, 'event')} without a number of 0 or more at ${options.cost!.text}: counted as 1`)
  if (failedOpen > 0) add('fail_open', `${count(failedOpen, 'event')} of keys beyond max_keys passed uncounted`)
  if (refused > 0) add('refused', `${count(refused, 'event')} of keys beyond max_keys were discarded`)
  if (waits.events > 0) {
    const longest = formatDuration(waits.longestMs)
    const text = isBacklog ? `later, the last one ${longest} after the start` : `after a wait of up to ${longest}`
    add('waited', `${count(waits.events, 'event')} passed ${text}`)
  }
  if (other) {
    const [here, there] = [replay, other].map(({ visitor }) => visitor.all[0]!.tally.totals.discarded) as [
      number,
      number,
    ]
    if (here !== there) add('backlog', isBacklog ? liveText(here, there) : backlogText(there, here))
  }
  if (late > 0)
    add('late', `${count(late, 'event')} later than allowed_lateness, whose windows were no longer in memory`)
  if (span && looksLikeSeconds(span.from) && looksLikeSeconds(span.to))
    add('note', `numbers in ${time} are milliseconds; these look like seconds`)
  return facts
}

/** For a simulation of live events. `backlog`: how many are discarded if all are backlog. `live`: if all are live. */
function backlogText(backlog: number, live: number): string {
  return `at its first start, sluice run reads existing lines all at once: if they count as live events, ${number(backlog)} are discarded; if they count in event time, ${number(live)} are discarded`
}

/** Like `backlogText`, but for a simulation of backlog. */
function liveText(backlog: number, live: number): string {
  return `as backlog, ${number(backlog)} events are discarded; as live events in event time, ${number(live)} would be discarded`
}

function noTime(time: string | undefined, { sources, processors }: ThrottlePath): string {
  const areText = processors.length === 0 && sources.every(({ options }) => decodingOf(options)?.form === 'message')
  const help = areText
    ? 'lines of text do not have a time; set another decode in their source, or try the limit on live events with --tap'
    : 'name the field that holds it with --time'
  return `no event has a time in ${time === 'auto' ? TIME_FIELDS.map(({ text }) => text).join(', ') : time}: ${help}`
}

function timeName(time: string | undefined): string {
  return time === 'auto' ? 'time' : String(time)
}

function undecodedText(undecoded: number, { sources }: ThrottlePath): string {
  const expected = new Set(sources.map(({ options }) => decodingOf(options)?.definition ?? JSON_OBJECTS.definition))
  const names = [...expected].flatMap(({ form, expects }) => (form === 'message' ? [] : [expects]))
  return `${count(undecoded, 'line')} not ${names.join(' or ')}`
}

/** The codec in the options of a source. Undefined if the source does not have the option `decode`. */
function decodingOf(options: unknown): Codec | undefined {
  return (options as { decode?: Codec }).decode
}

/** Reasons why the result is meaningless. Empty if the result is meaningful. */
export function problems({ replay, time, route }: Replayed): string[] {
  const { events, timeless, undecoded, fields } = replay
  if (events === 0) return []
  const found: string[] = []
  if (timeless === events) found.push(noTime(time, route))
  const missing = replay.visitor.all.filter(({ ids, tally }) => ids.hasNone && tally.excluded.events < events)
  for (const key of new Set(missing.map(({ options }) => keyText(options.key_field))))
    found.push(`no event has the key ${key}: correct key_field, or name another field with --key`)
  if (found.length === 0) return []
  const lines = undecoded > 0 ? `${undecodedText(undecoded, route)}` : ''
  const have = `the fields of the events are ${[...fields].join(', ')}`
  return [...found, ...(lines ? [lines] : []), have]
}

/** The steps before the throttle: decoding other than JSON, and processors. */
export function routeText({ sources, processors }: ThrottlePath): string {
  const decoding = sources.flatMap(({ id, options }) => {
    const codec = decodingOf(options)
    return codec === undefined || codec.form === 'object' ? [] : [`decode: ${codec} of ${id}`]
  })
  return [...decoding, ...processors.map(({ id, type }) => `${id} (${type})`)].join(', ')
}
