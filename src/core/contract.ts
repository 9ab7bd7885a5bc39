/** The version of the contract between the program and plugins. It changes when a plugin for the one before might not work. */
export const CONTRACT = 1
