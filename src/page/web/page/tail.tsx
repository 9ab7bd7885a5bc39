import { computed, useSignal } from '@preact/signals'
import { Component } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { DaemonError, lines } from '../kit/api.js'
import { CopyButton, FailureNote, TextField } from '../kit/parts.js'
import { adjust, currentRoute, link } from '../kit/route.js'
import { isNarrow } from '../kit/screen.js'
import { stored } from '../kit/stored.js'
import { countedWhole, grouped } from '../kit/words.js'
import { Coloured } from './event.js'
import { hidden, isAway, paused, status } from './live.js'
import type { Component as ComponentOf } from './types.js'

const MOST_LINES = 1000
/** Events to show per second, since nobody reads more. With a condition, the daemon inspects more events than this. */
const SHOWN = 50

/** Null: on a narrow screen, where a line that is not wrapped shows little more than its time. */
const wraps = stored<boolean | null>('tail.wrap', null)
const isWrapped = computed(() => wraps.value ?? isNarrow.value)

const outputsOf = ({ id, type }: ComponentOf) => (type === 'throttle' ? [id, `${id}.discarded`] : [id])

interface Line {
  readonly n: number
  readonly text: string
}

/** A line. It is drawn only once, because lines are many and do not change. */
class One extends Component<{ text: string }> {
  override shouldComponentUpdate(): boolean {
    return false
  }

  render({ text }: { text: string }) {
    return (
      <div class={text.startsWith('#') ? 'dim' : undefined}>
        <Coloured text={text} />
      </div>
    )
  }
}

export function Tail() {
  const components = status.value?.components ?? []
  const id = currentRoute.value.id ?? components[0]?.id
  const { where = '' } = currentRoute.value.params
  const shown = useSignal<readonly Line[]>([])
  const [error, setError] = useState<unknown>()
  const [attempt, setAttempt] = useState(0)
  const [isHeld, hold] = useState(false)
  const count = useRef(0)
  const box = useRef<HTMLDivElement>(null)
  // When the page is connected again, the stream begins again.
  const isStopped = paused.value || hidden.value || isAway.value || isHeld

  useEffect(() => {
    shown.value = []
  }, [id, where])
  useEffect(() => {
    if (id === undefined || isStopped) return
    const stop = new AbortController()
    let pending: Line[] = []
    const timer = setInterval(() => {
      if (pending.length === 0) return
      shown.value = [...shown.value, ...pending].slice(-MOST_LINES)
      pending = []
    }, 200)
    const read = async () => {
      setError(undefined)
      for await (const text of lines(
        'tap',
        where ? { component: id, where, most: SHOWN } : { component: id, rate: SHOWN },
        stop.signal,
      ))
        if (text.trim() !== '') pending.push({ n: ++count.current, text })
      throw new DaemonError(0, `The daemon ended this stream. Is ${id} still in its configuration?`)
    }
    read().catch(reason => {
      if (!stop.signal.aborted) setError(reason)
    })
    return () => {
      stop.abort()
      clearInterval(timer)
    }
  }, [id, where, isStopped, attempt])
  useLayoutEffect(() => {
    if (!isHeld) box.current?.scrollTo(0, box.current.scrollHeight)
  })
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!
    hold(scrollHeight - scrollTop - clientHeight > 40)
  }
  const events = shown.value.filter(({ text }) => !text.startsWith('#'))
  return (
    <>
      <div class="tools">
        <h1>Tail</h1>
        <label>
          component{' '}
          <select value={id} onChange={event => (location.hash = link('tail', event.currentTarget.value, { where }))}>
            {components.flatMap(outputsOf).map(one => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <TextField
          label="where"
          isSearch
          size={30}
          placeholder=".level equal 'error'"
          value={where}
          enter={text => adjust({ where: text })}
        />
        <label>
          <input
            type="checkbox"
            checked={isWrapped.value}
            onChange={event => (wraps.value = event.currentTarget.checked)}
          />{' '}
          wrap
        </label>
        <button type="button" onClick={() => hold(!isHeld)} aria-pressed={isHeld}>
          {isHeld ? 'continue' : 'pause'}
        </button>
        <CopyButton
          text={events.map(({ text }) => text).join('\n')}
          label="copy as JSON"
          what="of all lines that are shown"
        />
      </div>
      {error !== undefined && <FailureNote error={error} retry={() => setAttempt(attempt + 1)} />}
      <p class="dim" role="status">
        {isHeld
          ? `Paused at ${countedWhole(events.length, 'event')}. Scroll down, or press "continue", to see new ones.`
          : `The last ${grouped(MOST_LINES)} events stay here.`}
      </p>
      <div
        ref={box}
        class={isWrapped.value ? 'tail wrapped' : 'tail'}
        data-scrolls
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={`Events of ${id}`}
        onScroll={scrolled}
      >
        {shown.value.map(({ n, text }) => (
          <One key={n} text={text} />
        ))}
        {shown.value.length === 0 && error === undefined && (
          <div class="dim">waiting for the next event{where && ` that matches ${where}`}</div>
        )}
      </div>
    </>
  )
}
