import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { currentRoute, link } from './route.js'
import { stored } from './stored.js'
import { nextTheme, theme } from './theme.js'

export interface View {
  readonly name: string
  readonly title: string
  readonly draw: () => ComponentChildren
}

interface Props {
  readonly views: readonly View[]
  readonly head: ComponentChildren
  readonly top: ComponentChildren
  /** Keys in addition to those of the shell. */
  readonly keys: readonly (readonly [key: string, what: string, run: () => void])[]
  readonly children: ComponentChildren
}

const isHelpOpen = signal(false)
const hasKeys = stored('keys', true)

const rows = () => [...document.querySelectorAll<HTMLElement>('main [data-row]')].filter(row => row.checkVisibility())

function move(by: number): void {
  const all = rows()
  const at = all.indexOf(document.activeElement as HTMLElement)
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))]
  next?.focus()
  next?.scrollIntoView({ block: 'nearest' })
}

function search(): void {
  const field = document.querySelector<HTMLInputElement>('main [data-search]')
  if (field) field.focus()
  else location.hash = link('find')
}

function leave(): void {
  const { activeElement } = document
  if (activeElement instanceof HTMLElement && !activeElement.matches('body, main')) activeElement.blur()
  else if (currentRoute.value.id !== undefined)
    location.hash = link(currentRoute.value.view === 'component' ? 'flow' : currentRoute.value.view)
}

function Keys({ keys }: Pick<Props, 'keys'>) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    if (isHelpOpen.value) dialog.current?.showModal()
    else dialog.current?.close()
  }, [isHelpOpen.value])
  const all = [
    ['1 – 5', 'the views'],
    ['/', 'search or filter'],
    ['j k ↓ ↑', 'next and previous row'],
    ['Enter', 'open the row'],
    ['Escape', 'leave a field; close what is open'],
    ['t', 'theme'],
    ...keys,
    ['?', 'this list'],
  ] as const
  return (
    <dialog ref={dialog} aria-label="Keys" onClose={() => (isHelpOpen.value = false)}>
      <h2>Keys</h2>
      <dl>
        {all.map(([key, what]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <label>
        <input
          type="checkbox"
          checked={hasKeys.value}
          onChange={event => (hasKeys.value = event.currentTarget.checked)}
        />{' '}
        keys of one character work
      </label>
      <p>
        <button type="button" onClick={() => (isHelpOpen.value = false)}>
          close
        </button>
      </p>
    </dialog>
  )
}

export function Shell({ views, head, top, keys, children }: Props) {
  // Keys work as soon as the page is drawn.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement
      const isTyping = target.matches('input:not([type=range], [type=checkbox]), textarea, select')
      if (event.ctrlKey || event.metaKey || event.altKey) return
      // The browser handles the keys of an open dialog.
      if (document.querySelector('dialog[open]')) return
      if (event.key === 'Escape') return leave()
      if (isTyping || (!hasKeys.value && event.key.length === 1)) return
      const isSlider = target.matches('input, [data-scrolls]')
      const view = views[Number(event.key) - 1]
      const own = keys.find(([key]) => key === event.key)
      if (view) location.hash = link(view.name)
      else if (own) own[2]()
      else if (event.key === '/') search()
      else if (event.key === '?') isHelpOpen.value = true
      else if (event.key === 't') nextTheme()
      else if (event.key === 'j' || (event.key === 'ArrowDown' && !isSlider)) move(1)
      else if (event.key === 'k' || (event.key === 'ArrowUp' && !isSlider)) move(-1)
      else return
      event.preventDefault()
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [])
  const { view: name, id } = currentRoute.value
  useEffect(() => scrollTo(0, 0), [name, id])
  const drawn = useRef(name)
  useLayoutEffect(() => {
    // Screen readers announce the new view when it gets the focus.
    if (drawn.current !== name) document.querySelector('main')?.focus({ preventScroll: true })
    drawn.current = name
  }, [name])
  return (
    <>
      <header>
        <div class="head">
          {head}
          <span class="controls">
            {keys.map(([key, what, run]) => (
              <button type="button" key={key} onClick={run} aria-keyshortcuts={key}>
                {what} <kbd>{key}</kbd>
              </button>
            ))}
            <button type="button" onClick={nextTheme} aria-keyshortcuts="t">
              theme: {theme.value} <kbd>t</kbd>
            </button>
            <button type="button" onClick={() => (isHelpOpen.value = true)} aria-keyshortcuts="?">
              keys <kbd>?</kbd>
            </button>
          </span>
        </div>
        {top}
        <nav aria-label="Views">
          {views.map((view, i) => (
            <a
              key={view.name}
              href={link(view.name)}
              aria-current={view.name === name ? 'page' : undefined}
              aria-keyshortcuts={`${i + 1}`}
            >
              <span class="kbd" aria-hidden="true">
                {i + 1}
              </span>{' '}
              {view.title}
            </a>
          ))}
        </nav>
      </header>
      <main tabIndex={-1}>{children}</main>
      <Keys keys={keys} />
    </>
  )
}
