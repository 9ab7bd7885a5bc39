/** The presets, in the order of the reference. */
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

/** Prefixes that mark the keys of a service. */
export interface KeyMarks {
  readonly service: string
  /** The prefixes, separated by spaces. */
  readonly marks: string
  /** Minimum number of characters that follow. */
  readonly least: number
  /**
   * The class of these characters. capitals: upper-case letters and digits. word: letters and digits. base64url
   * (default): also `-_`. parts: as base64url, with dots in between. token: all characters of tokens.
   */
  readonly of?: 'capitals' | 'word' | 'base64url' | 'parts' | 'token'
  /** The scanner looks for the character at this index, and also compares the one before. Default: first of `-_.`. */
  readonly anchor?: number
  /** Whether at least one digit must follow. This distinguishes keys from words. */
  readonly needsDigit?: true
}

export const KEY_MARKS: readonly KeyMarks[] = [
  { service: 'AWS', marks: 'AKIA ASIA ABIA ACCA AROA AIDA', least: 16, of: 'capitals', anchor: 3 },
  { service: 'AWS', marks: 'A3T', least: 17, of: 'capitals', anchor: 2 },
  { service: 'Amazon Bedrock', marks: 'ABSK', least: 40, of: 'token', anchor: 2 },
  { service: 'Amazon Bedrock', marks: 'bedrock-api-key-', least: 20, of: 'token' },
  { service: 'Anthropic, OpenAI', marks: 'sk-', least: 20, needsDigit: true },
  { service: 'DigitalOcean', marks: 'dop_v1_ doo_v1_ dor_v1_', least: 60, of: 'word' },
  { service: 'GitHub', marks: 'ghp_ gho_ ghu_ ghs_ ghr_', least: 30, of: 'parts' },
  { service: 'GitHub', marks: 'github_pat_', least: 22 },
  {
    service: 'GitLab',
    marks: 'glpat- gloas- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glwt- glsoat- glffct-',
    least: 16,
    of: 'parts',
  },
  { service: 'GitLab', marks: 'GR1348941', least: 16, anchor: 1 },
  { service: 'Google', marks: 'AIza', least: 30, anchor: 1 },
  { service: 'Google', marks: 'GOCSPX-', least: 20 },
  { service: 'Google', marks: 'ya29.', least: 20, of: 'parts' },
  { service: 'Hugging Face', marks: 'hf_ api_org_', least: 30, of: 'word' },
  { service: 'npm', marks: 'npm_', least: 30, of: 'word' },
  { service: 'PyPI', marks: 'pypi-AgE', least: 16 },
  { service: 'SendGrid', marks: 'SG.', least: 40, of: 'parts' },
  { service: 'Shopify', marks: 'shpat_ shpca_ shppa_ shpss_ shpua_', least: 32, of: 'word' },
  {
    service: 'Slack',
    marks: 'xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xwfp-',
    least: 10,
    of: 'token',
  },
  {
    service: 'Slack',
    marks: 'hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/',
    least: 20,
    of: 'token',
  },
  { service: 'Stripe', marks: 'sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_', least: 10 },
  { service: 'Stripe', marks: 'whsec_', least: 16, of: 'token' },
]

/** Names of secrets whose values have no prefix that marks them. The case of the names does not matter, except for a K. */
export const SECRET_NAMES = ['aws_secret_access_key', 'SecretAccessKey', '_authToken', '_gitlab_session'] as const
