/** An example of a component, in the reference and run by the tests. */
export interface Example {
  readonly title: string
  /** The component's options as YAML, without `type` and `inputs`. */
  readonly yaml: string
  /** Files that the options name as `./NAME`, by that name. */
  readonly files?: Readonly<Record<string, string>>
  /** NDJSON lines in and out, run by the tests. Processors only. */
  readonly input?: readonly string[]
  readonly output?: readonly string[]
  /** NDJSON lines that side outputs get, by name. */
  readonly outputs?: Readonly<Record<string, readonly string[]>>
}
