/** The functions of users, for `@sluice-logs/sluice/plugin`. */

// biome-ignore lint/suspicious/noExplicitAny: users know the fields of their events
type AnyEvent = Record<string, any>

/** An event for one of the outputs of the script, as `context.to` returns it. */
export interface Route {
  readonly event: unknown
}

/** The second argument of a function. */
export interface ScriptContext {
  /** The id of the component. */
  readonly id: string
  /** Aborts when the batch reaches the timeout. */
  readonly signal: AbortSignal
  /** Returns a result that sends `event` to one of the `outputs`. Throws an Error if the output does not exist. */
  readonly to: (output: string, event: object) => Route
}

/** The event to pass on, null to discard the event, an array of events that replace it, or a route. */
export type ScriptResult = object | null

/** A function of an event. */
export type Script<Event extends object = AnyEvent> = (
  event: Event,
  context: ScriptContext,
) => ScriptResult | Promise<ScriptResult>

/** A function of a batch, for `per: batch`. It returns a result for each event, in the order of the events. */
export type BatchScript<Event extends object = AnyEvent> = (
  events: Event[],
  context: ScriptContext,
) => readonly ScriptResult[] | Promise<readonly ScriptResult[]>
