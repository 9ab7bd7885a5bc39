/**
 * How long a test waits for something that has to come about. Only a test that fails waits that long: the bound says
 * nothing about how fast anything is, so that a machine with other work to do changes no result.
 */
export const PATIENCE_MS = 30_000
