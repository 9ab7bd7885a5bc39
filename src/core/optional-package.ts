import { lacksDescriptor, OptionError } from './errors.js'

/** A package that only some configurations need. It may be missing, because npm may omit it. */
export class OptionalPackage<T> {
  readonly #name: string
  readonly #version: string
  readonly #import: () => Promise<unknown>

  /** `version`: the version to install. `load` imports the package. */
  constructor(name: string, version: string, load: () => Promise<unknown>) {
    this.#name = name
    this.#version = version
    this.#import = load
  }

  /** Loads the package. Throws an OptionError for `option` if the package is missing or cannot be loaded. */
  async load(option: string): Promise<T> {
    try {
      return (await this.#import()) as T
    } catch (error) {
      if (lacksDescriptor(error)) throw error
      throw new OptionError(option, this.#missing(error), error)
    }
  }

  /** Returns why the package cannot be used; undefined if it can. Does not load the package. */
  problem(): string | undefined {
    try {
      import.meta.resolve(this.#name)
      return undefined
    } catch (error) {
      return this.#missing(error)
    }
  }

  #missing(error: unknown): string {
    const { code, message } = error as NodeJS.ErrnoException
    // If the error names another package, a dependency of this package is missing.
    const isMissing = code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${this.#name}'`)
    if (!isMissing) return `cannot load ${this.#name}: ${message}`
    return `needs the package ${this.#name}, which is not installed: run "npm install ${this.#name}@${this.#version}" in the folder where sluice is installed; add -g if sluice was installed with -g`
  }
}
