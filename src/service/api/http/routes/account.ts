import {
  accountDocument,
  changedFeatureDocument,
  createdAccountDocument,
  featureDocument,
  tokenDocument,
} from '../../../../daemon/client/documents.js'
import { accountInput, featureInput, pageQuery } from '../../../../daemon/client/inputs.js'
import { requireEnterprise, requireFeatureManagement, requirePipelineRead } from '../../domain/accounts/access.js'
import { DEFAULT_LIMITS } from '../../domain/context.js'
import { type ApiRoute, apiRoute } from '../route.js'

export const accountRoutes: readonly ApiRoute[] = [
  apiRoute({
    method: 'GET',
    path: '/v3/auth/token',
    operation: 'getToken',
    tag: 'token',
    summary: 'Returns the type, subject, scopes and expiry of the token of this request.',
    answers: { 200: { description: 'The token, without the key.', one: ['token', tokenDocument] } },
    handle: async ({ service, principal }) => ({ one: service.token(principal) }),
  }),
  apiRoute({
    method: 'GET',
    path: '/v3/enterprise/account',
    operation: 'listAccounts',
    tag: 'enterprise',
    summary: 'Lists the accounts of the enterprise.',
    scope: 'enterprise:manage',
    access: requireEnterprise,
    query: pageQuery,
    answers: { 200: { description: 'A page of accounts.', list: ['account', accountDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.accounts.list(principal, query) }),
  }),
  apiRoute({
    method: 'POST',
    path: '/v3/enterprise/account',
    operation: 'createAccount',
    tag: 'enterprise',
    summary: 'Creates an account and, if requested, its first manager.',
    scope: 'enterprise:manage',
    access: requireEnterprise,
    body: accountInput,
    answers: {
      201: {
        description: 'The account. The key of its manager is returned only once.',
        one: ['account', createdAccountDocument],
      },
    },
    refusals: {
      409: { limit_reached: `The enterprise has reached the limit of ${DEFAULT_LIMITS.accounts} accounts.` },
    },
    handle: async ({ service, principal, body }) => ({ one: await service.accounts.create(principal, body) }),
  }),
  apiRoute({
    method: 'GET',
    path: '/v3/account',
    operation: 'getAccount',
    tag: 'account',
    summary: 'Returns the account in which the request acts.',
    answers: { 200: { description: 'The account.', one: ['account', accountDocument] } },
    handle: async ({ service, principal }) => ({ one: await service.accounts.current(principal) }),
  }),
  apiRoute({
    method: 'GET',
    path: '/v3/account/feature/{feature}',
    operation: 'getFeature',
    tag: 'account',
    summary: 'Returns a beta feature, `throttle`, and the published pipelines that use it.',
    scope: 'pipeline:read',
    access: requirePipelineRead,
    answers: { 200: { description: 'The feature.', one: ['feature', featureDocument] } },
    handle: async ({ service, principal, params }) => ({
      one: await service.accounts.feature(principal, params.feature!),
    }),
  }),
  apiRoute({
    method: 'PUT',
    path: '/v3/account/feature/{feature}',
    operation: 'setFeature',
    tag: 'account',
    summary: 'Enables or disables a beta feature: `throttle`.',
    description:
      'Only a manager of the account can do this, with a personal key. While a feature is disabled, the published pipelines that use it accept no events, and daemons cannot fetch them.',
    scope: 'account:manage',
    access: requireFeatureManagement,
    body: featureInput,
    answers: { 200: { description: 'The updated account.', one: ['account', changedFeatureDocument] } },
    handle: async ({ service, principal, params, body }) => ({
      one: await service.accounts.setFeature(principal, params.feature!, body.enabled),
    }),
  }),
]
