/** What can be found without a pattern, in the order of the reference. */
export const PRESETS = [
  'card',
  'email',
  'ipv4',
  'ipv6',
  'mac',
  'jwt',
  'bearer',
  'private_key',
  'api_key',
  'iban',
  'phone',
] as const

export type Preset = (typeof PRESETS)[number]
