import { useState } from 'preact/hooks'
import { CopyButton } from '../kit/parts.js'
import { visible } from '../kit/words.js'

/** Names the rule and the bucket, as in ` (rule errors, bucket cart)`. */
export function ruleText({ rule, bucket }: { rule?: string | undefined; bucket?: string | null | undefined }): string {
  const parts = [
    rule === undefined ? '' : `rule ${rule}`,
    bucket === undefined ? '' : `bucket ${bucket ?? '(default)'}`,
  ]
  const said = parts.filter(part => part !== '').join(', ')
  return said === '' ? '' : ` (${visible(said)})`
}

const textOf = (event: unknown) => (typeof event === 'string' ? event : JSON.stringify(event))

/** Matches names and values of JSON. */
const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g

/** Creates only text nodes and `span`: an event is never markup. */
export function Coloured({ text: given }: { text: string }) {
  const text = visible(given)
  if (!/^\s*[[{]/.test(text)) return text
  const parts = []
  let end = 0
  for (const match of text.matchAll(TOKENS)) {
    const [all, quoted, colon, word] = match
    const name = quoted && colon !== undefined ? quoted : all
    parts.push(text.slice(end, match.index))
    const kind = quoted ? (colon === undefined ? 'string' : 'name') : word ? 'word' : 'digits'
    parts.push(<span class={kind}>{name}</span>)
    end = match.index + name.length
  }
  return (
    <>
      {parts}
      {text.slice(end)}
    </>
  )
}

/** A longer event is cut until the user asks for all of it. */
const LONGEST = 600

export function Event({ of }: { of: unknown }) {
  const [isWhole, setWhole] = useState(false)
  const text = textOf(of)
  const isLong = text.length > LONGEST
  return (
    <p class="event">
      <code>
        <Coloured text={isLong && !isWhole ? text.slice(0, LONGEST) : text} />
      </code>{' '}
      {isLong && (
        <button type="button" onClick={() => setWhole(!isWhole)}>
          {isWhole ? 'less' : 'all of it'}
        </button>
      )}
      <CopyButton text={text} what="this event" />
    </p>
  )
}
