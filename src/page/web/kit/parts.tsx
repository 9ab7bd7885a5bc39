import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { DaemonError, post } from './api.js'
import { visible } from './words.js'

export type NoteLevel = 'error' | 'warning' | 'note' | 'fine'

const SIGNS: Readonly<Record<NoteLevel, string>> = { error: '✕', warning: '!', note: '·', fine: '' }

/** Shows a state by words and a sign, not only by colour. */
export function StateMark({ level, children }: { level: NoteLevel; children: ComponentChildren }) {
  return (
    <span class={`mark ${level}`}>
      {SIGNS[level] && <b aria-hidden="true">{SIGNS[level]} </b>}
      {children}
    </span>
  )
}

/** Shows a text of the daemon, or of a receiver. Names between backticks are shown as code. */
export function Prose({ of = '' }: { of: string | undefined }) {
  return (
    <>
      {visible(of)
        .split(/`([^`]+)`/)
        .map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}
    </>
  )
}

/** Shows a text that glows for a moment when it changes. */
export function Glow({ text }: { text: string }) {
  const first = useRef(text)
  return (
    <span key={text} class={text === first.current ? '' : 'glow'}>
      {text}
    </span>
  )
}

/** Copies a text. Only secure pages have the clipboard API; other pages use `execCommand`. */
async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    document.body.append(area)
    area.select()
    document.execCommand('copy')
    area.remove()
  }
}

export function CopyButton({ text, label = 'copy', what }: { text: string; label?: string; what: string }) {
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setDone(false), 2000)
    return () => clearTimeout(timer)
  }, [done])
  return (
    <button
      type="button"
      class="copy"
      aria-label={`${label} ${what}`}
      onClick={() => void copy(text).then(() => setDone(true))}
    >
      <span aria-live="polite">{done ? 'copied' : label}</span>
    </button>
  )
}

export function CopyableCommand({ text }: { text: string }) {
  return (
    <span class="command">
      <code>{text}</code> <CopyButton text={text} what="this command" />
    </span>
  )
}

/** Shows an error of the daemon, or a form if the daemon asks for a token. */
export function FailureNote({ error, retry }: { error: unknown; retry?: () => void }) {
  if (error instanceof DaemonError && error.status === 401)
    return <Token words={error.message} done={retry ?? (() => {})} />
  const words = error instanceof DaemonError ? error.message : 'The daemon does not answer. Is it running?'
  return (
    <p class="failure" role="alert">
      <StateMark level="error">{words}</StateMark>
    </p>
  )
}

function Token({ words, done }: { words: string; done: () => void }) {
  const [token, setToken] = useState('')
  const [problem, setProblem] = useState('')
  const send = (event: Event) => {
    event.preventDefault()
    post('session', { token }).then(done, (error: Error) => setProblem(error.message))
  }
  return (
    <form class="token" onSubmit={send}>
      <p>
        <StateMark level="note">{words}</StateMark>
      </p>
      <label>
        Token{' '}
        <input
          type="password"
          autocomplete="off"
          value={token}
          onInput={event => setToken(event.currentTarget.value)}
        />
      </label>{' '}
      <button type="submit">Use this token</button>
      {problem && (
        <p role="alert">
          <StateMark level="error">{problem}</StateMark>
        </p>
      )}
    </form>
  )
}

interface FieldProps {
  readonly label: string
  readonly value: string
  readonly enter: (text: string) => void
  readonly placeholder?: string
  readonly size?: number
  /** Whether the key `/` moves the focus to this field. */
  readonly isSearch?: boolean
  readonly isInvalid?: boolean
  /** Whether the label is visible. */
  readonly isNamed?: boolean
}

/** A text field. Its value takes effect when the user enters it. Until then, redrawing keeps the typed text. */
export function TextField(props: FieldProps) {
  const {
    label,
    value,
    enter,
    placeholder = '',
    size = 20,
    isSearch = false,
    isInvalid = false,
    isNamed = true,
  } = props
  const [typed, setTyped] = useState<string>()
  return (
    <label class={isSearch ? (value ? 'filter active' : 'filter') : undefined}>
      {isNamed && `${label} `}
      <input
        type="search"
        data-search={isSearch || undefined}
        aria-label={label}
        aria-invalid={isInvalid}
        placeholder={placeholder}
        size={size}
        value={typed ?? value}
        onInput={event => setTyped(event.currentTarget.value)}
        onChange={event => {
          setTyped(undefined)
          enter(event.currentTarget.value.trim())
        }}
        onBlur={() => setTyped(undefined)}
      />
    </label>
  )
}

interface FilterProps {
  readonly label: string
  readonly value: string
  readonly change: (text: string) => void
  /** The result, such as "12 of 250". */
  readonly shown?: string
}

/** An active filter shows its result, and a button to clear it. */
export function Filter({ label, value, change, shown }: FilterProps) {
  return (
    <span class={value ? 'filter active' : 'filter'}>
      <input
        type="search"
        data-search
        aria-label={label}
        placeholder={label}
        value={value}
        onInput={event => change(event.currentTarget.value)}
      />
      {value && (
        <>
          <output>{shown}</output>
          <button type="button" onClick={() => change('')}>
            clear
          </button>
        </>
      )}
    </span>
  )
}

/** Whether a text has all words of a filter. */
export function matches(text: string, filter: string): boolean {
  const low = text.toLowerCase()
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every(word => low.includes(word))
}
