/** The handler of uncaught errors. If it is undefined, an uncaught error ends the process. */
type Tolerates = (error: unknown) => boolean

let tolerates: Tolerates | undefined

/** From now on, an uncaught error does not end the process if `handler` returns true for it. */
export function tolerateFaults(handler: Tolerates): () => void {
  tolerates = handler
  return () => {
    if (tolerates === handler) tolerates = undefined
  }
}

export function isTolerated(error: unknown): boolean {
  return tolerates?.(error) ?? false
}
