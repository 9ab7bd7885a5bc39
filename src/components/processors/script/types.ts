/** The functions of users, for `@sluice-logs/sluice/plugin`. */

// biome-ignore lint/suspicious/noExplicitAny: users know the fields of their events
type AnyEvent = Record<string, any>

/** What `context.to` makes: an event for one of the outputs of the script. */
export interface Route {
  readonly event: unknown
}

/** What a function gets besides the event or events. */
export interface ScriptContext {
  /** The id of the component. */
  readonly id: string
  /** Aborts when the time of the batch is over. */
  readonly signal: AbortSignal
  /** Makes a result of an event: it goes to one of the `outputs`. Throws if there is no such output. */
  readonly to: (output: string, event: object) => Route
}

/** The event that goes on, null to discard it, events that take its place, or a route. */
export type ScriptResult = object | null

/** A function of an event. */
export type Script<Event extends object = AnyEvent> = (
  event: Event,
  context: ScriptContext,
) => ScriptResult | Promise<ScriptResult>

/** A function of a batch, for `per: batch`: it returns a result for each of its events, in their order. */
export type BatchScript<Event extends object = AnyEvent> = (
  events: Event[],
  context: ScriptContext,
) => readonly ScriptResult[] | Promise<readonly ScriptResult[]>
