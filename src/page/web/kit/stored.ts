import { effect, type Signal, signal } from '@preact/signals'

const PREFIX = 'sluice.'

/** A setting that survives a reload of the page, unless the browser refuses to store it. Only changes are stored. */
export function stored<T>(name: string, initial: T): Signal<T> {
  const value = signal(kept(name) ?? initial) as Signal<T>
  let isChanged = false
  effect(() => {
    const text = JSON.stringify(value.value)
    if (!isChanged) {
      isChanged = true
      return
    }
    try {
      localStorage.setItem(PREFIX + name, text)
    } catch {}
  })
  return value
}

function kept(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? 'null') ?? undefined
  } catch {
    return undefined
  }
}
