/** The section of a configuration for each kind of component. */
export const SECTIONS = { source: 'sources', processor: 'processors', destination: 'destinations' } as const
