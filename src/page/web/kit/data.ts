import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { get, type Params } from './api.js'

export interface Data<T> {
  readonly data: T | undefined
  readonly error: unknown
  readonly isLoading: boolean
  readonly retry: () => void
}

/** Whether the page is paused or hidden. Requests are then not repeated. */
export const isIdle = signal(false)

/** Requests data after `delay` ms, then every `every` ms (0: only once). Keeps the response until the next one. */
export function useData<T>(path: string | undefined, params: Params = {}, every = 0, delay = 0): Data<T> {
  const [answer, setAnswer] = useState<{ path?: string; data?: T; error?: unknown; isLoading: boolean }>({
    isLoading: true,
  })
  const [attempt, setAttempt] = useState(0)
  const key = JSON.stringify(params)
  useEffect(() => {
    if (path === undefined) return
    const stop = new AbortController()
    let timer = 0
    const again = () => {
      if (isIdle.peek()) wait()
      else void ask()
    }
    const wait = () => {
      timer = setTimeout(again, every) as unknown as number
    }
    const ask = async () => {
      setAnswer(old => ({ ...old, isLoading: true }))
      try {
        const data = await get<T>(path, JSON.parse(key) as Params, stop.signal)
        setAnswer({ path, data, isLoading: false })
      } catch (error) {
        if (!stop.signal.aborted) setAnswer(old => ({ ...(old.path === path ? old : {}), error, isLoading: false }))
      }
      if (every > 0 && !stop.signal.aborted) wait()
    }
    timer = setTimeout(ask, delay) as unknown as number
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [path, key, every, attempt])
  const isOf = answer.path === path
  return {
    data: isOf ? answer.data : undefined,
    error: answer.error,
    isLoading: answer.isLoading,
    retry: () => setAttempt(attempt + 1),
  }
}
