/** Counts of the app for metrics, as plain numbers. */

export interface RequestCount {
  readonly method: string
  readonly route: string
  readonly status: number
  requests: number
  seconds: number
}

/** Requests by method, route and status. Bounded, since only declared routes count. */
export class RequestCounts {
  readonly #byKey = new Map<string, RequestCount>()

  add(method: string, route: string, status: number, ms: number): void {
    const key = `${method} ${route} ${status}`
    let count = this.#byKey.get(key)
    if (!count) this.#byKey.set(key, (count = { method, route, status, requests: 0, seconds: 0 }))
    count.requests++
    count.seconds += ms / 1000
  }

  all(): Iterable<RequestCount> {
    return this.#byKey.values()
  }
}
