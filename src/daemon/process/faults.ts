/** The handler of uncaught errors; undefined: the process ends. */
type Tolerates = (error: unknown) => boolean

let tolerates: Tolerates | undefined

/** From now on, errors that nobody has caught and that `handler` returns true for do not end the process. */
export function tolerateFaults(handler: Tolerates): () => void {
  tolerates = handler
  return () => {
    if (tolerates === handler) tolerates = undefined
  }
}

export function isTolerated(error: unknown): boolean {
  return tolerates?.(error) ?? false
}
