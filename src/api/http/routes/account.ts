import { DEFAULT_LIMITS } from '../../domain/context.js'
import { accountDocument, createdAccountDocument, tokenDocument } from '../../domain/documents.js'
import { accountInput, featureInput, pageQuery } from '../../domain/inputs.js'
import { type Route, route } from '../route.js'

/** Routes of the token itself, accounts and features. */
export const accountRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v3/auth/token',
    operation: 'getToken',
    tag: 'token',
    summary: 'What this token is: type, subject, scopes, expiry.',
    answers: { 200: { description: 'The token; never the key.', one: ['token', tokenDocument] } },
    handle: async ({ service, principal }) => ({ one: service.token(principal) }),
  }),
  route({
    method: 'GET',
    path: '/v3/enterprise/account',
    operation: 'listAccounts',
    tag: 'enterprise',
    summary: 'Accounts of the enterprise.',
    scope: 'enterprise:manage',
    query: pageQuery,
    answers: { 200: { description: 'A page of accounts.', list: ['account', accountDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.accounts.list(principal, query) }),
  }),
  route({
    method: 'POST',
    path: '/v3/enterprise/account',
    operation: 'createAccount',
    tag: 'enterprise',
    summary: 'Makes an account, and its first manager where that is asked for.',
    scope: 'enterprise:manage',
    body: accountInput,
    answers: {
      201: {
        description: 'The account. The key of its manager is shown this once.',
        one: ['account', createdAccountDocument],
      },
    },
    refusals: {
      409: { limit_reached: `The enterprise has ${DEFAULT_LIMITS.accounts} accounts, the most that are possible.` },
    },
    handle: async ({ service, principal, body }) => ({ one: await service.accounts.create(principal, body) }),
  }),
  route({
    method: 'GET',
    path: '/v3/account',
    operation: 'getAccount',
    tag: 'account',
    summary: 'The account acted in.',
    answers: { 200: { description: 'The account.', one: ['account', accountDocument] } },
    handle: async ({ service, principal }) => ({ one: await service.accounts.current(principal) }),
  }),
  route({
    method: 'PUT',
    path: '/v3/account/feature/{feature}',
    operation: 'setFeature',
    tag: 'account',
    summary: 'Enables or disables a feature in beta: `throttle`.',
    description: "For the account's manager, with a personal key.",
    scope: 'account:manage',
    body: featureInput,
    answers: { 200: { description: 'The account as it is now.', one: ['account', accountDocument] } },
    handle: async ({ service, principal, params, body }) => ({
      one: await service.accounts.setFeature(principal, params.feature!, body.enabled),
    }),
  }),
]
