/** The sections of a configuration, by the kind of component that they hold. */
export const SECTIONS = { source: 'sources', processor: 'processors', destination: 'destinations' } as const
